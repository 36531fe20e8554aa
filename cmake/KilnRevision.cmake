# kiln_revision(target): compiles the revision of the source tree into a target, as the constant gitRevision of
# tools/kiln/Version.h. Every build checks the revision, and compiles this one file again only if it has changed.
find_package(Git QUIET)

function(kiln_revision target)
  set(source ${CMAKE_BINARY_DIR}/generated/tools/kiln/Revision.cpp)
  add_custom_target(${target}_revision BYPRODUCTS ${source} COMMENT "Revision of the source tree"
    COMMAND ${CMAKE_COMMAND} "-DGIT=${GIT_EXECUTABLE}" "-DTREE=${CMAKE_SOURCE_DIR}" "-DOUTPUT=${source}"
            -P ${CMAKE_SOURCE_DIR}/cmake/WriteRevision.cmake VERBATIM)
  target_sources(${target} PRIVATE ${source})
  set_source_files_properties(${source} PROPERTIES GENERATED ON SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
  add_dependencies(${target} ${target}_revision)
endfunction()
