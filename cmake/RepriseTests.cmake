# reprise_add_tests(FOLDER SOURCES...): the program FOLDER_tests, and one ctest entry for each of its test files.
#
# The entries come from the program itself, after each build, so no test that it holds can be forgotten; and a
# file's tests share a process, so that thousands of tests start quickly.
function(reprise_add_tests folder)
  set(program ${folder}_tests)
  add_executable(${program} ${ARGN})
  target_link_libraries(${program} PRIVATE reprise_test_support reprise reprise_compiler GTest::gtest
                                           GTest::gtest_main)
  if(TARGET reprise-gpt AND folder STREQUAL apps)
    target_link_libraries(${program} PRIVATE reprise_apps)
    target_compile_definitions(${program} PRIVATE REPRISE_GPT_PROGRAM="$<TARGET_FILE:reprise-gpt>"
                               REPRISE_RECOMPUTE_PROGRAM="$<TARGET_FILE:reprise-recompute>")
    add_dependencies(${program} reprise-gpt reprise-recompute)
  endif()
  reprise_link_cuda(${program})
  target_compile_options(${program} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O1>)  # references in tests are small: building them costs more
  set(entries "${CMAKE_CURRENT_BINARY_DIR}/${program}.cmake")
  set(cuda_runs ${REPRISE_CUDA_TEST_RUNS})
  if(REPRISE_SANITIZE MATCHES "thread" AND NOT folder STREQUAL "kernels")
    set(cuda_runs "")  # a hundred times slower: races are a kernel's own, its tests show them
  endif()
  add_custom_command(TARGET ${program} POST_BUILD VERBATIM
    COMMAND "${CMAKE_COMMAND}" -D "program=$<TARGET_FILE:${program}>" -D "entries=${entries}"
            -D "tests_folder=${PROJECT_SOURCE_DIR}/tests" -D "cuda_runs=${cuda_runs}"
            -P "${PROJECT_SOURCE_DIR}/cmake/DiscoverTests.cmake")
  set_property(TARGET ${program} APPEND PROPERTY LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/DiscoverTests.cmake")
  # A program that is not built yet is a failing entry, not a silent gap.
  file(CONFIGURE OUTPUT "${entries}.default" @ONLY CONTENT
       "if(EXISTS \"@entries@\")\n  include(\"@entries@\")\nelse()\n  add_test(@folder@_NOT_BUILT @program@)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${entries}.default")
endfunction()
