# Finds what Reprise builds with. All that is missing is reported at once, with the Debian packages that have it.
set(missing_packages "")

# reprise_need(FACT PACKAGE): notes PACKAGE as missing unless the variable FACT is true.
macro(reprise_need fact package)
  if(NOT ${fact})
    list(APPEND missing_packages ${package})
  endif()
endmacro()

find_package(Threads REQUIRED)
find_package(PkgConfig QUIET)
reprise_need(PKG_CONFIG_FOUND pkg-config)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(PCRE2 QUIET IMPORTED_TARGET GLOBAL libpcre2-8)
  if(REPRISE_BLAS OR REPRISE_BUILD_BENCHMARKS)
    pkg_check_modules(OPENBLAS QUIET IMPORTED_TARGET GLOBAL openblas)
  endif()
endif()
reprise_need(PCRE2_FOUND libpcre2-dev)
if(REPRISE_BLAS)
  reprise_need(OPENBLAS_FOUND libopenblas-dev)
endif()

if(REPRISE_BUILD_APPS)
  find_package(CLI11 2.1 QUIET)
  reprise_need(CLI11_FOUND libcli11-dev)
  find_package(tomlplusplus 3.3 QUIET)
  reprise_need(tomlplusplus_FOUND libtomlplusplus-dev)
  find_package(fmt 9 QUIET)
  reprise_need(fmt_FOUND libfmt-dev)
endif()
if(REPRISE_BUILD_TESTS)
  find_package(GTest 1.12 QUIET)
  reprise_need(GTest_FOUND libgtest-dev)
  find_package(Python3 3.9 QUIET COMPONENTS Interpreter)
  reprise_need(Python3_Interpreter_FOUND python3)
endif()
if(REPRISE_BUILD_BENCHMARKS)
  find_package(benchmark QUIET)
  reprise_need(benchmark_FOUND libbenchmark-dev)
endif()

if(missing_packages)
  list(JOIN missing_packages " " missing_words)
  message(FATAL_ERROR "Reprise needs packages that were not found: ${missing_words}\n"
                      "On Debian or Ubuntu: ./run setup, or: sudo apt-get install ${missing_words}\n"
                      "To build less: -DREPRISE_BUILD_APPS=OFF -DREPRISE_BUILD_TESTS=OFF "
                      "-DREPRISE_BUILD_BENCHMARKS=OFF")
endif()

if(NOT REPRISE_CUDA MATCHES "^(OFF|ON|EMULATED)$")
  message(FATAL_ERROR "REPRISE_CUDA is '${REPRISE_CUDA}': say OFF, ON or EMULATED")
endif()
if(NOT REPRISE_CUDA STREQUAL OFF)
  find_package(CUDAToolkit QUIET)
  message(WARNING "REPRISE_CUDA=${REPRISE_CUDA}: this version of Reprise has no CUDA kernels yet. "
                  "What gets built is the CPU device alone, the same as with REPRISE_CUDA=OFF.")
endif()
