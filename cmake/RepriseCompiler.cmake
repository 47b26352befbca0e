# How Reprise's own code is compiled: warnings are errors at home, and the sanitizers REPRISE_SANITIZE asks for.
if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug, RelWithDebInfo" FORCE)
  endif()
  find_program(REPRISE_CCACHE ccache)
  if(REPRISE_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${REPRISE_CCACHE}")
  endif()
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
endif()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_EXTENSIONS OFF)

add_library(reprise_compiler INTERFACE)
# psabi and ignored-attributes speak of vector types, which Reprise passes between inlined functions only.
# restrict: g++ 12 warns falsely about "x" + std::string (GCC PR 105651).
# contract=fast lets a * b + c be one rounding on every machine that has it; errno is never read after maths,
# nor are floating-point exceptions. Partial inlining would split functions that must be inlined whole (kernels/cpu/simd.h).
set(gcc_warnings "")
set(gcc_options "")
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  set(gcc_warnings -Wno-restrict)
  set(gcc_options -fno-partial-inlining)
endif()
set(reprise_options -Wall -Wextra -Wpedantic -Wshadow -Wno-psabi -Wno-ignored-attributes ${gcc_warnings}
                    -ffp-contract=fast -fno-math-errno -fno-trapping-math ${gcc_options})
if(PROJECT_IS_TOP_LEVEL)
  list(APPEND reprise_options -Werror)
endif()
target_compile_options(reprise_compiler INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${reprise_options}>")
set(reprise_sanitizer_options "")
if(REPRISE_SANITIZE)
  # g++ 12 warns falsely of uninitialised variables in instrumented code.
  set(reprise_sanitizer_options -fsanitize=${REPRISE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
                                -Wno-maybe-uninitialized)
  # AddressSanitizer's checks as calls and not inline: the same checks, a third less to compile.
  if(REPRISE_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    list(APPEND reprise_sanitizer_options --param=asan-instrumentation-with-call-threshold=0)
  endif()
  # UndefinedBehaviorSanitizer's checks of pointers would double the time to compile, and AddressSanitizer mostly makes
  # them too. Arithmetic, shifts, bounds and alignment stay.
  if(REPRISE_SANITIZE MATCHES "undefined")
    list(APPEND reprise_sanitizer_options
         -fno-sanitize=null,object-size,vptr,nonnull-attribute,returns-nonnull-attribute,return,pointer-overflow)
  endif()
  add_compile_options(${reprise_sanitizer_options})
  add_link_options(-fsanitize=${REPRISE_SANITIZE})
endif()

# reprise_narrow(TARGET): under a sanitizer the CPU's kernels are compiled for one instruction set and not for three
# (kernels/cpu/simd.h): AVX2, where this machine has it. AVX-512 would take twice as long. -DREPRISE_SIMD_LANES=0 compiles
# all, 16 AVX-512 alone.
function(reprise_narrow target)
  if(NOT REPRISE_SANITIZE)
    return()
  endif()
  set(lanes 4)
  if(EXISTS /proc/cpuinfo)
    file(STRINGS /proc/cpuinfo has_avx2 REGEX "^flags.* fma .* avx2 " LIMIT_COUNT 1)
    if(has_avx2)
      set(lanes 8)
    endif()
  endif()
  if(DEFINED REPRISE_SIMD_LANES)
    set(lanes ${REPRISE_SIMD_LANES})
  endif()
  target_compile_definitions(${target} PRIVATE REPRISE_SIMD_LANES=${lanes})
endfunction()

# reprise_optimise(SOURCES...): these files get -O3 in a build of any type: kernels at -O0 make a training step 50 times
# slower. Release and RelWithDebInfo optimise by themselves, and a sanitizer's build stays as quick to compile as it is.
function(reprise_optimise)
  if(NOT REPRISE_SANITIZE)
    set_property(SOURCE ${ARGN} APPEND PROPERTY
                 COMPILE_OPTIONS "$<$<NOT:$<CONFIG:Release,RelWithDebInfo>>:-O3>")
  endif()
endfunction()

# reprise_join_folders(TARGET SOURCES...): with REPRISE_JOIN_FOLDERS the files of a folder are compiled as one: what they
# include is parsed, and what they share is instantiated, once. Not those of core/, kernels/ and simt/, where the time goes
# elsewhere. So a name in an unnamed namespace is its folder's (tests/build/structure.py; docs/decisions/0020-*.md).
function(reprise_join_folders target)
  if(NOT REPRISE_JOIN_FOLDERS)
    set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
    return()
  endif()
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE folder)
    cmake_path(GET folder PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY "${PROJECT_SOURCE_DIR}")
    if(folder MATCHES "^(core|kernels|simt)(/|$)")
      set_property(SOURCE "${source}" PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
    else()
      string(MAKE_C_IDENTIFIER "${folder}" group)
      set_property(SOURCE "${source}" PROPERTY UNITY_GROUP "${group}")
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
