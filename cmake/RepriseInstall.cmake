# `cmake --install`: the library, its headers under include/reprise, the CMake package and the pkg-config file.
include(CMakePackageConfigHelpers)

install(TARGETS reprise EXPORT RepriseTargets)
foreach(folder core simt kernels autograd nn io data distributed)
  install(DIRECTORY ${folder}/ DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/reprise/${folder}"
          FILES_MATCHING PATTERN "*.h")
endforeach()
install(FILES reprise.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/reprise")

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/Reprise")
install(EXPORT RepriseTargets NAMESPACE reprise:: DESTINATION "${package_folder}")
if(TARGET reprise_train)
  install(TARGETS reprise_train reprise_plot EXPORT RepriseTrainTargets)
  foreach(folder train plot)
    install(DIRECTORY ${folder}/ DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/reprise/${folder}"
            FILES_MATCHING PATTERN "*.h")
  endforeach()
  install(EXPORT RepriseTrainTargets NAMESPACE reprise:: DESTINATION "${package_folder}")
endif()
configure_package_config_file(cmake/RepriseConfig.cmake.in RepriseConfig.cmake
                              INSTALL_DESTINATION "${package_folder}")
write_basic_package_version_file(RepriseConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/RepriseConfig.cmake" "${PROJECT_BINARY_DIR}/RepriseConfigVersion.cmake"
        DESTINATION "${package_folder}")

# A static library leaves its own dependencies to the target that links it; a shared one has them inside.
set(pc_requires_kind Requires)
if(BUILD_SHARED_LIBS)
  set(pc_requires_kind Requires.private)
endif()
set(pc_images "")
if(REPRISE_IMAGES)
  set(pc_images " libjpeg libpng zlib")
endif()
set(pc_blas "")
if(REPRISE_BLAS)
  set(pc_blas " openblas")
endif()
set(pc_gloo "")
if(REPRISE_GLOO AND GLOO_FOUND AND NOT BUILD_SHARED_LIBS)
  set(pc_gloo " -lgloo")
endif()
set(pc_crypto "")
if(REPRISE_OPENSSL AND CRYPTO_FOUND AND NOT BUILD_SHARED_LIBS)
  set(pc_crypto " -lcrypto")
endif()
file(RELATIVE_PATH pc_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file(cmake/reprise.pc.in reprise.pc @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/reprise.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

if(TARGET reprise-gpt)
  install(TARGETS reprise-gpt)
endif()
