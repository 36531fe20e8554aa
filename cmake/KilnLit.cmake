# lit and FileCheck, from LLVM's packages, and a script bin/kiln-lit that runs lit on this build.

find_program(KILN_FILECHECK FileCheck HINTS ${LLVM_TOOLS_BINARY_DIR})
find_file(KILN_LIT lit.py HINTS ${LLVM_TOOLS_BINARY_DIR}/../build/utils/lit NO_DEFAULT_PATH)
# Prefers the system's Python: lit needs only the standard library.
find_program(KILN_PYTHON python3 HINTS /usr/bin)
cmake_host_system_information(RESULT KILN_CORES QUERY NUMBER_OF_LOGICAL_CORES)

# kiln_lit_suite(folder): a CTest test lit.<name> for each subfolder that contains lit tests.
function(kiln_lit_suite folder)
  file(GLOB_RECURSE files RELATIVE ${folder} CONFIGURE_DEPENDS ${folder}/*.kiln ${folder}/*.test)
  list(TRANSFORM files REPLACE "/.*" "")
  list(REMOVE_DUPLICATES files)
  configure_file(${folder}/lit.site.cfg.py.in ${CMAKE_CURRENT_BINARY_DIR}/lit.site.cfg.py @ONLY)
  configure_file(${folder}/kiln-lit.in ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/kiln-lit @ONLY
    FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  foreach(name IN LISTS files)
    if(KILN_FILECHECK AND KILN_LIT AND KILN_PYTHON)
      add_test(NAME lit.${name}
        COMMAND ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/kiln-lit -sv -j ${KILN_CORES} ${folder}/${name})
    else()
      add_test(NAME lit.${name} COMMAND ${CMAKE_COMMAND} -E echo "skipped: no lit, FileCheck or python3")
      set_tests_properties(lit.${name} PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: no lit")
    endif()
  endforeach()
endfunction()
