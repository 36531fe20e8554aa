# Run by kiln_revision at build time: writes OUTPUT if the revision of TREE differs from the one in it.
cmake_minimum_required(VERSION 3.24)
set(revision "unknown")
set(prefix "none")
if(GIT)
  # A tree that was unpacked inside another project's repository has a prefix there: that revision is not its own.
  execute_process(COMMAND ${GIT} -C ${TREE} rev-parse --show-prefix
    OUTPUT_VARIABLE prefix OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed AND prefix STREQUAL "")
    execute_process(COMMAND ${GIT} --no-optional-locks -C ${TREE} describe --always --dirty --abbrev=12 --exclude=*
      OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed)
      set(revision "${described}")
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT
"// Made by cmake/WriteRevision.cmake.
namespace kiln {
extern const char *const gitRevision;
const char *const gitRevision = \"@revision@\";
} // namespace kiln
")
