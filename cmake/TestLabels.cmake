# reprise_test_labels(OUT FILE): the labels of a test file: those its line `// labels: ...` names, `concurrency` where it
# starts threads or chooses their number, `cuda` where it asks for the device by name.
function(reprise_test_labels out file)
  file(STRINGS "${file}" labels REGEX "^// labels: " LIMIT_COUNT 1)
  string(REGEX REPLACE "^// labels: *" "" labels "${labels}")
  string(REGEX REPLACE "[ ,]+" ";" labels "${labels}")
  file(STRINGS "${file}" threads REGEX "set_num_threads|std::j?thread|parallel_for" LIMIT_COUNT 1)
  if(threads)
    list(APPEND labels concurrency)
  endif()
  file(STRINGS "${file}" cuda REGEX "reprise/(core/cuda|simt)/|Device::cuda" LIMIT_COUNT 1)
  if(cuda)
    list(APPEND labels cuda)
  endif()
  list(REMOVE_DUPLICATES labels)
  set(${out} "${labels}" PARENT_SCOPE)
endfunction()

# reprise_follows_test_device(OUT FILE): whether a test file runs on the device that REPRISE_TEST_DEVICE names.
function(reprise_follows_test_device out file)
  file(STRINGS "${file}" follows LIMIT_COUNT 1 REGEX
       "tests/support/op_case\\.h|tests/autograd/recompute/support\\.h|tests/kernels/(run|views|row_views)\\.h|test_device")
  if(follows)
    set(${out} ON PARENT_SCOPE)
  else()
    set(${out} OFF PARENT_SCOPE)
  endif()
endfunction()
