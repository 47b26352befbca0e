# Uses Reprise by FetchContent. The library is the one that subdirectory.cmake builds in full; so here the consumer
# is configured and compiled, not linked.
include("${CMAKE_CURRENT_LIST_DIR}/steps.cmake")

configure_consumer(fetch_content "-DREPRISE_SOURCE=${source}")
step("${CMAKE_COMMAND}" --build "${work}/build" --target CMakeFiles/consumer.dir/main.cpp.o)
