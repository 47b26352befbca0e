# Fails if host code of the kernels' object file calls a __device__ function. In a template nvcc takes that without a word, and
# makes exit() of the call: the program would end there, silently, on a GPU alone. Arguments: nm, objects.
cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND "${nm}" --undefined-only "${objects}" OUTPUT_VARIABLE undefined RESULT_VARIABLE result)
if(result)
  message(FATAL_ERROR "${nm} does not read ${objects} (${result})")
endif()
if(undefined MATCHES " exit\n")
  message(FATAL_ERROR "${objects}: host code calls exit, which is what nvcc makes of a call of a __device__ function in a "
                      "template. `nm -u` tells which of the objects it is; mark the function __host__ __device__.")
endif()
