# Which architecture's PTX a build carries, and the least GPU it runs on, whatever the order of the list.
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/../../cmake/CudaArchitectures.cmake")

function(expect ptx least)
  reprise_oldest_architectures(got_ptx got_least ${ARGN})
  if(NOT "${got_ptx} ${got_least}" STREQUAL "${ptx} ${least}")
    message(FATAL_ERROR "${ARGN}: PTX of '${got_ptx}' and at least ${got_least}, want '${ptx}' and ${least}")
  endif()
endfunction()

expect(80 80 80 90a)
expect(80 80 90a 80)
expect(86 86 120 90a 86)
expect(90 90 100f 90)
expect(100 90 90a 120 100)
expect("" 90 90a)
