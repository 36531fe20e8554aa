# One function per kind of target, so that every folder's CMakeLists.txt is a list of files and arrows.

set(KILN_SANITIZE "" CACHE STRING "Sanitizers to build with, as -fsanitize= takes them")
set(KILN_CPU "x86-64-v3" CACHE STRING "Oldest CPU the programs must run on, as -march= takes it; empty for the compiler's default")

# Flags of this project's own code; system headers are exempt.
add_library(kiln_flags INTERFACE)
target_compile_options(kiln_flags INTERFACE -Wall -Wextra -Werror -Wno-unused-parameter -fno-math-errno)
# Every library may become part of libkiln.so (api/), which exports one function. Hidden, since calls of functions that
# another library could replace would be slower.
target_compile_options(kiln_flags INTERFACE -fPIC -fvisibility=hidden)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # In C++20, GCC 12 at -O3 sees impossible sizes in "literal" + std::string; version 13 does not.
  target_compile_options(kiln_flags INTERFACE -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds -Wno-maybe-uninitialized)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # libstdc++ 12's std::stable_sort calls a function that it deprecates itself.
  target_compile_options(kiln_flags INTERFACE -Wno-deprecated-declarations)
endif()
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" AND KILN_CPU)
  target_compile_options(kiln_flags INTERFACE -march=${KILN_CPU})
endif()
if(KILN_SANITIZE)
  target_compile_options(kiln_flags INTERFACE -fsanitize=${KILN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(kiln_flags INTERFACE -fsanitize=${KILN_SANITIZE})
  # Only the sanitizers' runtime refers to SanitizerOptions.cpp, and it is linked without searching archives.
  target_link_options(kiln_flags INTERFACE -Wl,--undefined=kilnSanitizerOptions)
endif()
target_include_directories(kiln_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/compiler)

# kiln_library(name [OPTIMISED] SOURCES a.cpp ... DEPENDS lib ... PRIVATE_DEPENDS lib ...)
# A static library; DEPENDS are the only folders whose symbols it may use. OPTIMISED: in every build, for code in which
# tests spend most of their time.
function(kiln_library name)
  cmake_parse_arguments(ARG "OPTIMISED" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC kiln_flags ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE_DEPENDS})
  if(ARG_OPTIMISED AND CMAKE_BUILD_TYPE STREQUAL "Debug")
    target_compile_options(${name} PRIVATE -O3)
  endif()
  kiln_precompile(${name})
endfunction()

# kiln_program(name SOURCES a.cpp ... DEPENDS lib ...)
function(kiln_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE kiln_flags ${ARG_DEPENDS})
  kiln_precompile(${name})
endfunction()

# Every translation unit includes support/ADT.h, which takes most of its parse time. A target with flags of its own
# compiles it again: a header compiled with other flags cannot be reused.
function(kiln_precompile name)
  get_target_property(own_flags ${name} COMPILE_OPTIONS)
  if(name STREQUAL "KilnSupport" OR own_flags)
    target_precompile_headers(${name} PRIVATE ${CMAKE_SOURCE_DIR}/compiler/support/ADT.h)
  else()
    target_precompile_headers(${name} REUSE_FROM KilnSupport)
  endif()
endfunction()
