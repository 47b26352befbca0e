# reprise_oldest_architectures(PTX LEAST ARCHITECTURES...): PTX, the architecture of the PTX that later GPUs compile: the
# oldest of the list, but for those with a letter (90a), whose PTX runs on no other; empty if there is none. LEAST, the
# least compute capability that has code, as 80 for 8.0.
function(reprise_oldest_architectures ptx least)
  set(portable ${ARGN})
  list(FILTER portable EXCLUDE REGEX "[a-z]$")
  list(SORT portable COMPARE NATURAL)
  set(oldest "")
  if(portable)
    list(GET portable 0 oldest)
  endif()
  set(${ptx} "${oldest}" PARENT_SCOPE)
  set(numbers ${ARGN})
  list(TRANSFORM numbers REPLACE "[a-z]$" "")
  list(SORT numbers COMPARE NATURAL)
  list(GET numbers 0 oldest)
  set(${least} "${oldest}" PARENT_SCOPE)
endfunction()
