# Fuzz targets: programs around LLVMFuzzerTestOneInput. Preset fuzz makes libFuzzer's programs of them (tests/fuzz/run.py);
# in every other build a main of our own runs what tests/fuzz keeps, as a test.

option(KILN_FUZZ "Build fuzz targets for libFuzzer, which needs clang" OFF)
if(KILN_FUZZ)
  target_compile_options(kiln_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# kiln_fuzz_target(name SOURCES a.cpp ... DEPENDS lib ...)
# The program kiln-fuzz-<name>, and the test fuzz.<name> over its seeds and tests/fuzz/corpus/<name>. TEXT: libFuzzer
# changes words and lines of inputs too, not only bytes.
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
