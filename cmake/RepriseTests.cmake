# reprise_add_tests(FOLDER SOURCES...): the program FOLDER_tests, and one ctest entry for each of its test files.
#
# The entries come from the program itself, after each build, so no test that it holds can be forgotten; and a
# file's tests share a process, so that thousands of tests start quickly.
include(TestLabels)

function(reprise_add_tests folder)
  set(program ${folder}_tests)
  set(cuda_runs ${REPRISE_CUDA_TEST_RUNS})
  set(sources ${ARGN})
  # A kernel's own tests show what depends on the order of its threads and what a sanitizer sees in it. What is built of
  # kernels runs on the device `cuda` too, in one order and no more, and not where a sanitizer makes it slow.
  if(REPRISE_SANITIZE AND NOT folder STREQUAL "kernels")
    set(cuda_runs "")
  elseif(NOT folder STREQUAL "kernels")
    list(FILTER cuda_runs EXCLUDE REGEX "^cuda-(forward|random)$")
  endif()
  if(REPRISE_SANITIZE MATCHES "thread")
    reprise_keep_tests_with_threads(sources "${cuda_runs}")
    if(NOT sources)
      return()
    endif()
  endif()
  add_executable(${program} ${sources})
  target_link_libraries(${program} PRIVATE reprise_test_support reprise reprise_compiler GTest::gtest
                                           GTest::gtest_main)
  if(TARGET reprise_${folder})
    target_link_libraries(${program} PRIVATE reprise_${folder})
  endif()
  if(TARGET reprise_train AND folder STREQUAL "no_memory")
    target_link_libraries(${program} PRIVATE reprise_train)
  endif()
  if(TARGET reprise-gpt AND folder STREQUAL apps)
    add_dependencies(${program} reprise-gpt reprise-vit reprise-jepa reprise-convert reprise-recompute
                     reprise-scale)
    target_link_libraries(${program} PRIVATE reprise_scale)
  endif()
  reprise_link_cuda(${program} ${sources})
  target_compile_options(${program} PRIVATE ${reprise_test_options})
  if(NOT folder STREQUAL "simt")  # its tests are written as kernels are, without operations
    target_precompile_headers(${program} REUSE_FROM reprise_test_headers)
  endif()
  foreach(file IN LISTS sources)
    get_source_file_property(own_options "${file}" COMPILE_OPTIONS)
    if(own_options MATCHES "-f|-x")  # what was parsed with other options does not fit
      set_property(SOURCE "${file}" PROPERTY SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
  if(REPRISE_SANITIZE MATCHES "address")
    set(watched "")
    foreach(file IN LISTS sources)
      file(STRINGS "${file}" asks_for_a_sanitizer REGEX "__SANITIZE_" LIMIT_COUNT 1)
      if(folder STREQUAL "simt" OR file MATCHES "\\.cu$" OR asks_for_a_sanitizer)
        list(APPEND watched "${file}")
      endif()
    endforeach()
    set_property(SOURCE ${watched} APPEND PROPERTY COMPILE_OPTIONS ${reprise_sanitizer_options})
    set_property(SOURCE ${watched} PROPERTY SKIP_PRECOMPILE_HEADERS ON)
  endif()
  set(entries "${CMAKE_CURRENT_BINARY_DIR}/${program}.cmake")
  add_custom_command(TARGET ${program} POST_BUILD VERBATIM
    COMMAND "${CMAKE_COMMAND}" -D "program=$<TARGET_FILE:${program}>" -D "entries=${entries}"
            -D "tests_folder=${PROJECT_SOURCE_DIR}/tests" -D "cuda_runs=${cuda_runs}" -D "sanitize=${REPRISE_SANITIZE}"
            -P "${PROJECT_SOURCE_DIR}/cmake/DiscoverTests.cmake")
  set_property(TARGET ${program} APPEND PROPERTY LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/DiscoverTests.cmake"
               "${PROJECT_SOURCE_DIR}/cmake/TestLabels.cmake")
  # A program that is not built yet is a failing entry, not a silent gap.
  file(CONFIGURE OUTPUT "${entries}.default" @ONLY CONTENT
       "if(EXISTS \"@entries@\")\n  include(\"@entries@\")\nelse()\n  add_test(@folder@_NOT_BUILT @program@)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${entries}.default")
endfunction()

# reprise_keep_tests_with_threads(LIST CUDA_RUNS): leaves the test files out that neither start threads nor run on the
# device `cuda`: ThreadSanitizer has nothing to say about them. Without any test left, what they share goes too.
function(reprise_keep_tests_with_threads list cuda_runs)
  set(kept "")
  set(shared "")
  foreach(file IN LISTS ${list})
    if(NOT file MATCHES "_test\\.(cpp|cu)$")
      list(APPEND shared "${file}")
      continue()
    endif()
    reprise_test_labels(labels "${file}")
    reprise_follows_test_device(follows "${file}")
    if("concurrency" IN_LIST labels OR "cuda" IN_LIST labels OR (follows AND cuda_runs))
      list(APPEND kept "${file}")
    endif()
  endforeach()
  if(kept)
    list(APPEND kept ${shared})
  endif()
  set(${list} ${kept} PARENT_SCOPE)
endfunction()
