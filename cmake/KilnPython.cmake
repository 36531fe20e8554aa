# kiln_python_tests(prefix [LONG name…]): a CTest test for each test_*.py of the folder, which runs the kiln program;
# those of the names have the label `long`. The tests need only Python's standard library; tests/run/kilntest.py has the
# helpers that they share.
function(kiln_python_tests prefix)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LONG")
  file(GLOB files RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS test_*.py)
  foreach(file IN LISTS files)
    string(REGEX REPLACE "^test_(.*)\\.py$" "${prefix}.\\1" name ${file})
    if(NOT KILN_PYTHON)
      add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "skipped: no python3")
      set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: no python3")
      continue()
    endif()
    add_test(NAME ${name} COMMAND ${KILN_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    set_tests_properties(${name} PROPERTIES
      ENVIRONMENT "KILN=$<TARGET_FILE:kiln>;PYTHONPATH=${CMAKE_SOURCE_DIR}/tests/run;KILN_CACHE=${CMAKE_BINARY_DIR}/test-cache")
  endforeach()
  foreach(name IN LISTS arg_LONG)
    set_property(TEST ${prefix}.${name} PROPERTY LABELS long)
  endforeach()
endfunction()
