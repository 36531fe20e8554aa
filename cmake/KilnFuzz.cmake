# Fuzz targets: programs around LLVMFuzzerTestOneInput. The preset fuzz links them with libFuzzer (tests/fuzz/run.py);
# in all other builds, a main program of our own runs the inputs in tests/fuzz as a test.

option(KILN_FUZZ "Build fuzz targets for libFuzzer, which needs clang" OFF)
if(KILN_FUZZ)
  target_compile_options(kiln_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# kiln_fuzz_target(name SOURCES a.cpp ... DEPENDS lib ...)
# The program kiln-fuzz-<name>, and the test fuzz.<name> over its seeds and tests/fuzz/corpus/<name>. TEXT: libFuzzer
# also changes words and lines of inputs, not only bytes.
function(kiln_fuzz_target name)
  cmake_parse_arguments(ARG "TEXT" "" "SOURCES;DEPENDS" ${ARGN})
  set(program kiln-fuzz-${name})
  kiln_program(${program} SOURCES ${ARG_SOURCES} DEPENDS KilnFuzzSupport ${ARG_DEPENDS})
  if(KILN_FUZZ)
    if(ARG_TEXT)
      target_sources(${program} PRIVATE TextMutator.cpp)
    endif()
    target_link_options(${program} PRIVATE -fsanitize=fuzzer)
    add_dependencies(kiln_fuzz ${program})
    return()
  endif()
  target_link_libraries(${program} PRIVATE KilnRunCorpus)
  add_test(NAME fuzz.${name} COMMAND ${program} ${KILN_FUZZ_SEEDS}/${name} ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name})
  set_tests_properties(fuzz.${name} PROPERTIES FIXTURES_REQUIRED fuzz-seeds)
endfunction()
