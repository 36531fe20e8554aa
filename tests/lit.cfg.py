# The lit suite: IR text through kiln-opt and kiln, checked by FileCheck.
#
#   ctest --preset dev -R lit                              everything
#   build/dev/bin/kiln-lit -v tests/passes/fuse-norm       a folder, or one file; -v shows why a test failed
#   build/dev/bin/kiln-lit -a tests/ir/round-trip.kiln     with all commands
#
# A test is a file .kiln or .test with RUN lines. In them:
#   %kiln-opt, %kiln      the programs of the build
#   %graphs               the folder graphs/ of the source tree
#   FileCheck, not, split-file, count and diff are found by name; %s is the test, %t a path for what it writes.
import os

import lit.formats

config.name = "kiln"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".kiln", ".test"]
config.test_source_root = os.path.dirname(__file__)

# lit tries substitutions in this order, so the longer name comes first.
for name in ["kiln-opt", "kiln"]:
    config.substitutions.append(("%" + name, os.path.join(config.program_folder, name)))
config.substitutions.append(("%graphs", os.path.join(config.source_folder, "graphs")))

config.environment["PATH"] = os.pathsep.join([config.llvm_tools_folder, config.environment["PATH"]])
for name in ["ASAN_OPTIONS", "UBSAN_OPTIONS"]:
    if name in os.environ:
        config.environment[name] = os.environ[name]
