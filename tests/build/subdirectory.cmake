# Uses Reprise by add_subdirectory, as a shared library: the whole library is built the way an outsider builds it.
include("${CMAKE_CURRENT_LIST_DIR}/steps.cmake")

configure_consumer(subdirectory "-DREPRISE_SOURCE=${source}" -DREPRISE_BUILD_TRAIN=ON -DBUILD_SHARED_LIBS=ON -DCMAKE_BUILD_TYPE=
                   -DCMAKE_CXX_FLAGS=-O1)
build_and_run_consumer()
