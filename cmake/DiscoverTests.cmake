# Run after linking a GoogleTest program: writes `entries`, a ctest file with one entry for each test file.
# Arguments: program, entries, tests_folder, cuda_runs (cuda, cuda-forward, ...: the ways a test that follows
# REPRISE_TEST_DEVICE runs on the device `cuda`, each an entry of its own), sanitize. The program lies in the build folder's bin;
# a compiler cache may have made the names of source files relative to that folder.
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/TestLabels.cmake")

cmake_path(GET program PARENT_PATH bin)
cmake_path(GET bin PARENT_PATH build_folder)
set(listing "${entries}.json")
execute_process(COMMAND "${program}" --gtest_list_tests "--gtest_output=json:${listing}"
                OUTPUT_QUIET ERROR_VARIABLE error RESULT_VARIABLE result)
if(result)
  message(FATAL_ERROR "${program} does not list its tests (${result}): ${error}")
endif()
file(STRINGS "${listing}" lines REGEX "\"(name|tests|file)\": ")

# The listing is indented by its depth: a suite's name at 6 spaces, a test's file at 10.
set(files "")
set(expected 0)
set(found 0)
foreach(line IN LISTS lines)
  if(line MATCHES "^  \"tests\": ([0-9]+)")
    set(expected ${CMAKE_MATCH_1})
  elseif(line MATCHES "^      \"name\": \"(.*)\",")
    string(REPLACE "\\/" "/" suite "${CMAKE_MATCH_1}")
  elseif(line MATCHES "^          \"file\": \"(.*)\",")
    string(REPLACE "\\/" "/" file "${CMAKE_MATCH_1}")
    math(EXPR found "${found} + 1")
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY "${build_folder}" NORMALIZE)
    list(APPEND files "${file}")
    list(APPEND "suites of ${file}" "${suite}.*")
  endif()
endforeach()
if(NOT found EQUAL expected OR found EQUAL 0)
  message(FATAL_ERROR "${program} lists ${expected} tests, of which ${found} were understood")
endif()

set(text "")
list(REMOVE_DUPLICATES files)
foreach(file IN LISTS files)
  file(RELATIVE_PATH name "${tests_folder}" "${file}")
  string(REGEX REPLACE "(_test)?\\.(cpp|cu)$" "" name "${name}")
  list(REMOVE_DUPLICATES "suites of ${file}")
  list(JOIN "suites of ${file}" ":" filter)
  # A line `// not in tsan: Suite.Test:...`: more of what others of the file have threads do, which is all that it can show.
  file(STRINGS "${file}" without REGEX "^// not in tsan: " LIMIT_COUNT 1)
  if(without AND sanitize MATCHES "thread")
    string(REPLACE "// not in tsan: " "-" without "${without}")
    string(APPEND filter "${without}")
  endif()
  reprise_test_labels(labels "${file}")
  set(command "[==[${program}]==] --gtest_brief=1 [==[--gtest_filter=${filter}]==]")
  string(APPEND text "add_test([==[${name}]==] ${command})\n"
                     "set_tests_properties([==[${name}]==] PROPERTIES TIMEOUT 600 LABELS \"${labels}\")\n")
  # With the emulator, what needs the device runs once more with streams as late and memory as closed as on a GPU.
  set(like_a_gpu "REPRISE_EMULATOR_STREAMS=deferred;REPRISE_EMULATOR_GUARD=1")
  if("cuda" IN_LIST labels AND NOT name MATCHES "simt/" AND "${cuda_runs}" MATCHES "cuda-")
    string(APPEND text "add_test([==[cuda-deferred/${name}]==] ${command})\n"
                       "set_tests_properties([==[cuda-deferred/${name}]==] PROPERTIES TIMEOUT 600 LABELS \"${labels}\"\n"
                       "  ENVIRONMENT \"${like_a_gpu}\")\n")
  endif()
  # A line `// also by cuBLASLt`, `// also by cuDNN`: on the emulator by its model of that library too.
  foreach(library IN ITEMS cuBLASLt cuDNN)
    file(STRINGS "${file}" by_library REGEX "^// also by ${library}" LIMIT_COUNT 1)
    if(by_library AND "${cuda_runs}" MATCHES "cuda-")
      string(TOLOWER "${library}" prefix)
      string(TOUPPER "${library}" variable)
      set(model_runs plain unkind)
      if(sanitize)
        set(model_runs unkind)
      endif()
      foreach(model IN LISTS model_runs)
        set(environment "REPRISE_TEST_DEVICE=cuda;REPRISE_EMULATOR_${variable}=${model}")
        if(model STREQUAL unkind)
          string(APPEND environment ";REPRISE_EMULATOR_STREAMS=deferred")
        endif()
        string(APPEND text "add_test([==[${prefix}-${model}/${name}]==] ${command})\n"
                           "set_tests_properties([==[${prefix}-${model}/${name}]==] PROPERTIES TIMEOUT 600\n"
                           "  LABELS \"${labels};cuda\" ENVIRONMENT \"${environment}\")\n")
      endforeach()
    endif()
  endforeach()
  reprise_follows_test_device(follows "${file}")
  if(NOT follows)
    continue()
  endif()
  foreach(run IN LISTS cuda_runs)
    string(REGEX REPLACE "^cuda-?" "" order "${run}")
    set(environment "REPRISE_TEST_DEVICE=cuda;REPRISE_EMULATOR_ORDER=${order}")
    if(order STREQUAL reverse)
      string(APPEND environment ";${like_a_gpu}")
    endif()
    string(APPEND text "add_test([==[${run}/${name}]==] ${command})\n"
                       "set_tests_properties([==[${run}/${name}]==] PROPERTIES TIMEOUT 900 LABELS \"${labels};cuda\"\n"
                       "  ENVIRONMENT \"${environment}\")\n")
  endforeach()
endforeach()
file(WRITE "${entries}" "${text}")
