# kiln_embed(library function FOLDER dir GLOBS *.x ... HEADER path)
# Compiles files into `library` as `ArrayRef<EmbeddedFile> function()`, sorted by name; it is declared in `HEADER` below
# the build directory's include root.
function(kiln_embed library function)
  cmake_parse_arguments(ARG "" "FOLDER;HEADER" "GLOBS" ${ARGN})
  list(TRANSFORM ARG_GLOBS PREPEND "${ARG_FOLDER}/")
  file(GLOB_RECURSE files RELATIVE ${ARG_FOLDER} CONFIGURE_DEPENDS ${ARG_GLOBS})
  list(SORT files)
  set(root ${CMAKE_BINARY_DIR}/generated)
  set(header ${root}/${ARG_HEADER})
  string(REGEX REPLACE "\\.h$" ".cpp" source ${header})
  list(TRANSFORM files PREPEND "${ARG_FOLDER}/" OUTPUT_VARIABLE paths)
  file(CONFIGURE OUTPUT ${header} @ONLY CONTENT
"// Made by cmake/EmbedFiles.cmake.
#pragma once
#include \"support/files/EmbeddedFile.h\"
namespace kiln {
/// Files below @ARG_FOLDER@'s name in the source tree, sorted by name.
ArrayRef<EmbeddedFile> ${function}();
} // namespace kiln
")
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} "-DFOLDER=${ARG_FOLDER}" "-DFILES=${files}" "-DFUNCTION=${function}"
            "-DINCLUDE=${ARG_HEADER}" "-DOUTPUT=${source}" -P ${CMAKE_SOURCE_DIR}/cmake/WriteEmbedded.cmake
    DEPENDS ${paths} ${CMAKE_SOURCE_DIR}/cmake/WriteEmbedded.cmake VERBATIM)
  target_sources(${library} PRIVATE ${source})
  target_include_directories(${library} PUBLIC ${root})
endfunction()
