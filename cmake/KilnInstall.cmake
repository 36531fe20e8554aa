# What `cmake --install` writes, and the Debian package of `cpack -G DEB`. Templates and targets are inside the programs
# and the library; the copies are for people who read or compile the CUDA of a plan.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS kiln kiln-opt)
install(TARGETS libkiln EXPORT KilnTargets
  PUBLIC_HEADER DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY templates DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln FILES_MATCHING PATTERN "*.cuh")
install(DIRECTORY graphs DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln FILES_MATCHING PATTERN "gpt2-*.toml"
  PATTERN "shakespeare-*" EXCLUDE PATTERN targets EXCLUDE)
install(FILES examples/c/generate.c examples/python/generate.py DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/kiln/examples)

# find_package(Kiln), and pkg-config for builds without CMake.
set(cmake_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Kiln)
install(EXPORT KilnTargets NAMESPACE Kiln:: DESTINATION ${cmake_folder})
configure_package_config_file(cmake/KilnConfig.cmake.in ${CMAKE_BINARY_DIR}/KilnConfig.cmake
  INSTALL_DESTINATION ${cmake_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/KilnConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/KilnConfig.cmake ${CMAKE_BINARY_DIR}/KilnConfigVersion.cmake
  DESTINATION ${cmake_folder})
# Paths relative to the file, so that an installation can be moved.
file(RELATIVE_PATH KILN_PKGCONFIG_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/kiln.pc.in ${CMAKE_BINARY_DIR}/kiln.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/kiln.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(CPACK_PACKAGE_NAME kiln)
set(CPACK_PACKAGE_CONTACT "The developers of Kiln")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
find_program(KILN_SHLIBDEPS dpkg-shlibdeps) # finds the libraries that the package needs
if(KILN_SHLIBDEPS)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
# The device emulate compiles kernels with it.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS g++)
include(CPack)
