# Steps that the consumer tests share. Expects: source, build, work, compiler, launcher, config.

# Runs a command; stops with all it printed if it fails.
function(step)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE out ERROR_VARIABLE out RESULT_VARIABLE result)
  if(result)
    list(JOIN ARGN " " words)
    message(FATAL_ERROR "failed (${result}): ${words}\n${out}")
  endif()
  message("${out}")
endfunction()

# Configures tests/consumer in `work`/build, as an outsider would: nothing but the compiler is handed on.
function(configure_consumer kind)
  step("${CMAKE_COMMAND}" -S "${source}/tests/consumer" -B "${work}/build" -G Ninja "-DCONSUMER=${kind}"
       "-DCMAKE_CXX_COMPILER=${compiler}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${launcher}" ${ARGN})
endfunction()

function(build_and_run_consumer)
  step("${CMAKE_COMMAND}" --build "${work}/build" --target consumer fused_op trainer)
  step("${work}/build/consumer")
  step("${work}/build/fused_op")
  step("${CMAKE_COMMAND}" -E chdir "${work}/build" ./trainer)
  step("${CMAKE_COMMAND}" -E chdir "${work}/build" ./trainer)  # goes on where that ended
endfunction()
