# The device `cuda`: which sources a build takes, and how .cu files are compiled. REPRISE_CUDA is
#   OFF        no device `cuda`
#   ON         nvcc compiles the kernels for the architectures in REPRISE_CUDA_ARCHITECTURES
#   EMULATED   the C++ compiler builds the same kernels for the emulator, which needs the toolkit's headers alone
set(REPRISE_CUDA_ARCHITECTURES "80;90a" CACHE STRING "GPU architectures of REPRISE_CUDA=ON; the oldest as PTX too")
include(CudaArchitectures)
include(RepriseKernels)

if(NOT REPRISE_CUDA MATCHES "^(OFF|ON|EMULATED)$")
  message(FATAL_ERROR "REPRISE_CUDA is '${REPRISE_CUDA}': say OFF, ON or EMULATED")
endif()
if(NOT REPRISE_CUDA STREQUAL OFF)
  find_package(CUDAToolkit 12.5 QUIET)
  if(NOT CUDAToolkit_FOUND)
    message(FATAL_ERROR "REPRISE_CUDA=${REPRISE_CUDA} needs the CUDA Toolkit, 12.5 or newer, which was not found. "
                        "Install it (https://developer.nvidia.com/cuda-downloads) or point CUDAToolkit_ROOT at it; "
                        "-DREPRISE_CUDA=OFF builds the CPU device alone.")
  endif()
endif()
if(REPRISE_CUDA STREQUAL EMULATED)
  find_path(CUBLASLT_INCLUDE_DIR cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})  # packages of their own
  find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
endif()
if(REPRISE_CUDA STREQUAL ON)
  if(NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER "${CUDAToolkit_NVCC_EXECUTABLE}")
  endif()
  set(CMAKE_CUDA_ARCHITECTURES OFF)  # said per file, below
  if(REPRISE_CCACHE AND NOT DEFINED CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER "${REPRISE_CCACHE}")
  endif()
  enable_language(CUDA)
  reprise_oldest_architectures(oldest least ${REPRISE_CUDA_ARCHITECTURES})
  list(JOIN REPRISE_CUDA_ARCHITECTURES ", " built)
  if(oldest)
    string(APPEND built ", PTX of ${oldest}")
  endif()
  set_source_files_properties(core/cuda/runtime_gpu.cpp PROPERTIES COMPILE_DEFINITIONS
                              "REPRISE_CUDA_LEAST_CAPABILITY=${least};REPRISE_CUDA_BUILT_FOR=\"${built}\"")
  find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_DIR}/stubs)
endif()

if(NOT REPRISE_CUDA STREQUAL OFF)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})  # a package of its own, libnccl-dev
endif()

# NVIDIA's libraries are opened at run time: where the system has none, those of this toolkit, and the cuDNN found here.
set(cudnn_folder "")
if(CUDNN_LIBRARY)
  get_filename_component(cudnn_folder "${CUDNN_LIBRARY}" DIRECTORY)
endif()
set_source_files_properties(kernels/cuda/shared_library.cpp PROPERTIES COMPILE_DEFINITIONS
                            "REPRISE_CUDA_LIBRARIES=\"${CUDAToolkit_LIBRARY_DIR}\",\"${cudnn_folder}\"")

# reprise_select_cuda_sources(LIST): leaves the sources that this build does not take out of the list.
# A library of NVIDIA's has two files, cudnn.cpp and cudnn_none.cpp; a build takes one. What calls cuBLASLt and cuDNN runs in
# the emulator too, on models of the libraries.
function(reprise_select_cuda_sources list)
  set(sources ${${list}})
  if(REPRISE_CUDA STREQUAL ON)
    list(FILTER sources EXCLUDE REGEX "/cublaslt_(none|emulated.*)\\.cpp$")
  elseif(REPRISE_CUDA STREQUAL EMULATED AND CUBLASLT_INCLUDE_DIR)
    list(FILTER sources EXCLUDE REGEX "/cublaslt_(none|library)\\.cpp$")
  else()
    list(FILTER sources EXCLUDE REGEX "/cublaslt(_call|_library|_emulated.*)?\\.cpp$")
  endif()
  if(REPRISE_CUDA STREQUAL OFF)
    list(FILTER sources EXCLUDE REGEX "^simt/|^core/cuda/(runtime_gpu|runtime_emulated|emulated_)|\\.cu$")
  elseif(REPRISE_CUDA STREQUAL EMULATED)
    list(FILTER sources EXCLUDE REGEX "^core/cuda/runtime_(gpu|none)")
  else()
    list(FILTER sources EXCLUDE REGEX "^simt/|^core/cuda/(runtime_none|runtime_emulated|emulated_)")
  endif()
  if(REPRISE_CUDA STREQUAL ON AND CUDNN_LIBRARY AND CUDNN_INCLUDE_DIR)
    list(FILTER sources EXCLUDE REGEX "/cudnn_(none|emulated.*)\\.cpp$")
  elseif(REPRISE_CUDA STREQUAL EMULATED AND CUDNN_INCLUDE_DIR)
    list(FILTER sources EXCLUDE REGEX "/cudnn_(none|library)\\.cpp$")
  else()
    list(FILTER sources EXCLUDE REGEX "/cudnn(_handle|_graph|_library|_emulated.*)?\\.cpp$")
  endif()
  if(REPRISE_CUDA STREQUAL OFF OR NOT NCCL_INCLUDE_DIR)
    list(FILTER sources EXCLUDE REGEX "/nccl_(channel|library|emulated.*)\\.cpp$")
  elseif(REPRISE_CUDA STREQUAL EMULATED)
    list(FILTER sources EXCLUDE REGEX "/nccl_(none|library)\\.cpp$")
  else()
    list(FILTER sources EXCLUDE REGEX "/nccl_(none|emulated.*)\\.cpp$")
  endif()
  set(${list} ${sources} PARENT_SCOPE)
endfunction()

# Kernels for the emulator tell it of every access, so that it reports loads of shared memory that no thread has written and
# accesses beside device buffers (simt/emulator/access_hooks.cpp). A sanitizer has that place in its own builds.
set(REPRISE_SIMT_CHECKS "")
if(REPRISE_CUDA STREQUAL EMULATED AND NOT REPRISE_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  set(REPRISE_SIMT_CHECKS -fsanitize=kernel-address --param=asan-instrumentation-with-call-threshold=0
                          --param=asan-stack=0 --param=asan-globals=0
                          -DREPRISE_SIMT_ACCESS_CHECKS)
endif()

# nvcc makes a * b + c one rounding. So does the emulator's build, where the processor can: some errors show only then.
set(REPRISE_SIMT_FUSED "")
if(REPRISE_CUDA STREQUAL EMULATED AND NOT REPRISE_SANITIZE AND EXISTS /proc/cpuinfo)
  file(STRINGS /proc/cpuinfo has_fma REGEX "^flags.* fma " LIMIT_COUNT 1)
  if(has_fma)
    set(REPRISE_SIMT_FUSED -mfma)
  endif()
endif()

# reprise_device_sources(SOURCES...): these files hold kernels. Compiled by nvcc, or for the emulator.
function(reprise_device_sources)
  foreach(source ${ARGN})
    if(REPRISE_CUDA STREQUAL EMULATED)
      set_source_files_properties("${source}" PROPERTIES LANGUAGE CXX
                                  COMPILE_OPTIONS "-xc++;-Wno-unknown-pragmas;${REPRISE_SIMT_FUSED};${REPRISE_SIMT_CHECKS}")
      continue()
    endif()
    set(architectures ${REPRISE_CUDA_ARCHITECTURES})
    if(source MATCHES "sm90")
      set(architectures 90a)
    endif()
    set(options "")
    foreach(architecture ${architectures})
      list(APPEND options --generate-code=arch=compute_${architecture},code=sm_${architecture})
    endforeach()
    reprise_oldest_architectures(oldest least ${architectures})
    if(oldest AND NOT source MATCHES "sm90")
      list(APPEND options --generate-code=arch=compute_${oldest},code=compute_${oldest})
    endif()
    # On other GPUs ptxas may spill, or warn of a launch bound that it ignores: sm_86 and sm_89 hold fewer threads.
    set(strict --Werror=all-warnings -Xptxas=-Werror,-warn-spills)
    list(FILTER architectures EXCLUDE REGEX "^(80|90a?)$")
    if(architectures)
      set(strict "")
    endif()
    list(APPEND options -std=c++20 --expt-relaxed-constexpr ${strict}
         -Xcompiler=-Wall,-Wextra,-Wno-unused-parameter)
    set_source_files_properties("${source}" PROPERTIES LANGUAGE CUDA COMPILE_OPTIONS "${options}")
  endforeach()
endfunction()

# The emulator switches stacks under the sanitizers' feet: its runtime is built without them and tells them by hand.
if(REPRISE_CUDA STREQUAL EMULATED AND REPRISE_SANITIZE)
  file(GLOB_RECURSE emulator_sources CONFIGURE_DEPENDS simt/*.cpp)
  set(simt_sanitizer REPRISE_SIMT_ASAN)
  if(REPRISE_SANITIZE MATCHES "thread")
    set(simt_sanitizer REPRISE_SIMT_TSAN)
  endif()
  set_source_files_properties(${emulator_sources} PROPERTIES COMPILE_OPTIONS "-fno-sanitize=all;-O2"
                              COMPILE_DEFINITIONS ${simt_sanitizer})
endif()

# reprise_link_cuda(TARGET SOURCES...): libraries of the toolkit, and its headers for those sources that ask for them: the
# others are compiled by the same command as without the toolkit, so that a compiler cache has them.
function(reprise_link_cuda target)
  if(REPRISE_CUDA STREQUAL OFF)
    return()
  endif()
  set(headers "")
  foreach(folder ${CUDAToolkit_INCLUDE_DIRS} ${CUBLASLT_INCLUDE_DIR} ${CUDNN_INCLUDE_DIR})
    list(APPEND headers -isystem "${folder}")
  endforeach()
  set(sources ${ARGN})
  list(FILTER sources INCLUDE REGEX "\\.(cpp|cu)$")
  foreach(source ${sources})
    file(STRINGS "${source}" asks LIMIT_COUNT 1 REGEX "#include (<cu|<nccl|\".*(simt/|\\.cuh))")
    if(asks)
      set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_OPTIONS ${headers})
    endif()
  endforeach()
  if(REPRISE_CUDA STREQUAL ON)
    target_link_libraries(${target} PRIVATE $<LINK_ONLY:CUDA::cudart_static>)
  endif()
endfunction()

# reprise_kernels_whole(OUT LIBRARIES SOURCES...): compiles the sources of kernels/ into one object file, named in OUT. A .cu
# gives its kernels to the tables by static objects that nothing else names: as a member of its own in a static
# library, a linker would drop it. Of LIBRARIES, those of the whole library, it takes the headers' folders alone: the same
# command as without the toolkit, for a compiler cache.
function(reprise_kernels_whole out libraries)
  add_library(reprise_kernels OBJECT ${ARGN})
  set_target_properties(reprise_kernels PROPERTIES UNITY_BUILD OFF)
  reprise_narrow(reprise_kernels)
  target_compile_features(reprise_kernels PUBLIC cxx_std_20)
  target_include_directories(reprise_kernels PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/include")
  target_link_libraries(reprise_kernels PRIVATE reprise_compiler ${libraries})
  # A watched scope keeps the sums of an inner loop out of registers: tests would take twice as long.
  if(REPRISE_SANITIZE MATCHES "address")
    target_compile_options(reprise_kernels PRIVATE -fno-sanitize-address-use-after-scope)
  endif()
  reprise_link_cuda(reprise_kernels ${ARGN})
  set(whole "${CMAKE_CURRENT_BINARY_DIR}/kernels.o")
  set(check "")
  if(REPRISE_CUDA STREQUAL ON)
    set(check COMMAND "${CMAKE_COMMAND}" -D "nm=${CMAKE_NM}" -D "objects=${whole}"
                      -P "${PROJECT_SOURCE_DIR}/cmake/CheckHostCode.cmake")
  endif()
  add_custom_command(OUTPUT "${whole}" COMMAND "${CMAKE_LINKER}" -r -o "${whole}" $<TARGET_OBJECTS:reprise_kernels> ${check}
                     DEPENDS reprise_kernels $<TARGET_OBJECTS:reprise_kernels> COMMAND_EXPAND_LISTS VERBATIM)
  set_source_files_properties("${whole}" PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  set(${out} "${whole}" PARENT_SCOPE)
endfunction()

# reprise_select_cuda_tests(LIST): leaves the tests out that this build has no device for: those in a folder simt/, or
# named emulated_*, need the emulator; a .cu holds kernels that tests launch.
function(reprise_select_cuda_tests list)
  set(sources ${${list}})
  if(REPRISE_CUDA STREQUAL OFF)
    list(FILTER sources EXCLUDE REGEX "tests/simt/|/emulated_|\\.cu$")
  elseif(REPRISE_CUDA STREQUAL ON)
    list(FILTER sources EXCLUDE REGEX "/emulated_")
  else()
    if(NOT CUBLASLT_INCLUDE_DIR)
      list(FILTER sources EXCLUDE REGEX "/emulated_cublaslt.*_test\\.cpp$")
    endif()
    if(NOT CUDNN_INCLUDE_DIR)
      list(FILTER sources EXCLUDE REGEX "/emulated_cudnn.*_test\\.cpp$")
    endif()
    if(NOT NCCL_INCLUDE_DIR)
      list(FILTER sources EXCLUDE REGEX "/emulated_nccl.*_test\\.cpp$")
    endif()
  endif()
  set(device_sources ${sources})
  list(FILTER device_sources INCLUDE REGEX "\\.cu$")
  reprise_device_sources(${device_sources})
  set(access_tests ${sources})  # kernels of their own, in C++
  list(FILTER access_tests INCLUDE REGEX "/emulated_access_checks_test\\.cpp$")
  if(access_tests)
    set_source_files_properties(${access_tests} PROPERTIES COMPILE_OPTIONS "${REPRISE_SIMT_CHECKS}")
  endif()
  set(${list} ${sources} PARENT_SCOPE)
endfunction()

# How tests of kernels are run on the device `cuda`: {name of the run: REPRISE_EMULATOR_ORDER}. The emulator runs them in
# several orders of threads; under a sanitizer, in the one that shows most.
if(REPRISE_CUDA STREQUAL OFF)
  set(REPRISE_CUDA_TEST_RUNS "")
elseif(REPRISE_CUDA STREQUAL ON)
  set(REPRISE_CUDA_TEST_RUNS cuda)
elseif(REPRISE_SANITIZE MATCHES "thread")
  set(REPRISE_CUDA_TEST_RUNS cuda-random)
elseif(REPRISE_SANITIZE)
  set(REPRISE_CUDA_TEST_RUNS cuda-forward)
else()
  set(REPRISE_CUDA_TEST_RUNS cuda-forward cuda-reverse cuda-random)
endif()
