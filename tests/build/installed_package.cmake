# Installs this build and uses it from outside: by find_package, from a moved prefix, and by pkg-config.
include("${CMAKE_CURRENT_LIST_DIR}/steps.cmake")

file(REMOVE_RECURSE "${work}")
step("${CMAKE_COMMAND}" --install "${build}" --prefix "${work}/first" --config "${config}")
file(RENAME "${work}/first" "${work}/prefix")

foreach(program gpt vit jepa convert recompute scale)
  step("${work}/prefix/bin/reprise-${program}" --help)
endforeach()
step("${work}/prefix/bin/reprise-recompute" memory --model tiny)

configure_consumer(package "-DCMAKE_PREFIX_PATH=${work}/prefix")
build_and_run_consumer()

file(STRINGS "${work}/build/CMakeCache.txt" found REGEX "^Reprise_DIR:PATH=${work}/prefix/")
if(NOT found)
  message(FATAL_ERROR "the consumer found another Reprise than the one just installed")
endif()

file(GLOB_RECURSE pc_files "${work}/prefix/*/reprise.pc")
get_filename_component(pc_folder "${pc_files}" DIRECTORY)
execute_process(COMMAND "${CMAKE_COMMAND}" -E env "PKG_CONFIG_PATH=${pc_folder}" pkg-config --cflags --libs reprise
                OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(flags UNIX_COMMAND "${flags}")
step("${compiler}" -Wall -Wextra -Wconversion -Wsign-conversion -Werror "${source}/tests/consumer/main.cpp"
     "${source}/tests/consumer/vector_kernel.cpp" -o "${work}/by_pkg_config" ${flags})
step("${CMAKE_COMMAND}" -E env "LD_LIBRARY_PATH=${pc_folder}/.." "${work}/by_pkg_config")
