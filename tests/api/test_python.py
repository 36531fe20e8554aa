"""The Python package: its wheel is built with the library of this build, installed into a fresh virtual environment, and
used there by the tests of tests/api/python, by the example and by docs/python.md; mypy checks package and example.

tools/lib/pythons.py chooses the interpreters, and tools/test fetches the wheels that this takes into
KILN_PYTHON_WHEELS. Nothing is fetched here."""
import glob
import os
import sys
import unittest

import installation
from installation import execute
from kilntest import SHAKESPEARE, SOURCE, KilnTest

sys.path.insert(0, os.path.join(SOURCE, "tools", "lib"))
import pythons  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.path.join(SOURCE, "examples", "python", "generate.py")
WHEELS = os.environ["KILN_PYTHON_WHEELS"]
PIP = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INDEX": "1",
       "PIP_FIND_LINKS": WHEELS}
environment = None  # the virtual environment


def reason_to_skip(chosen):
    if os.environ.get("KILN_SANITIZE"):
        return "a library with sanitizers cannot be loaded by a Python without them"
    if not chosen:
        return "no Python 3.11 or later with pip, venv and headers"
    for version in {version for version, _ in chosen}:
        if not os.path.exists(os.path.join(WHEELS, "%d.%d.txt" % version)):
            return f"no wheels for Python %d.%d in {WHEELS}; tools/test fetches them" % version
    return None


def python(*arguments, **options):
    return execute([os.path.join(environment, "bin", "python"), "-B", *arguments], **options)


def build_wheel(builder, folder):
    """Builds the wheel as a user does, but with the library that is already built."""
    execute([builder, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder, "--config-settings",
             f"cmake.define.Kiln_ROOT={installation.prefix}", os.path.join(SOURCE, "api", "python")], env=PIP)
    (wheel,) = glob.glob(os.path.join(folder, "*.whl"))
    return wheel


def setUpModule():
    global environment
    installation.install()
    (build_version, builder), (_, user) = pythons.choose()
    wheel = build_wheel(builder, os.path.join(installation.prefix, "wheel"))
    kind = "cp312-abi3" if build_version >= pythons.FIRST_OF_ABI else "cp311-cp311"
    if f"-{kind}-" not in wheel:
        raise AssertionError(f"expected a wheel for {kind}, got {wheel}")
    environment = os.path.join(installation.prefix, "environment")
    execute([user, "-m", "venv", environment])
    python("-m", "pip", "install", wheel, "mypy", env=PIP)


class PythonTest(KilnTest):
    def check(self, *names):
        """Runs tests of tests/api/python in the environment."""
        # Its unittest writes to the standard error, which only a failure shows.
        python("-m", "unittest", *names, cwd=self.folder,
               env={**os.environ, "PYTHONPATH": os.pathsep.join([os.path.join(HERE, "python"), os.path.dirname(EXAMPLE),
                                                                 os.path.join(SOURCE, "tests", "run")])})

    def test_models(self):
        self.check("model_test")

    def test_streams(self):
        self.check("stream_test")

    def test_plans_and_ir(self):
        self.check("plan_test", "ir_test")

    def test_comparing(self):
        self.check("compare_test")

    def test_types(self):
        for what in (["-p", "kiln"], [EXAMPLE]):
            python("-m", "mypy", "--strict", "--no-error-summary", *what, cwd=self.folder)

    def test_the_example_prints_what_kiln_run_prints(self):
        expected = self.kiln("run", SHAKESPEARE, "--prompt", "ROMEO:", "--greedy", "--max-new-tokens", "40", "--quiet")
        self.assertEqual(python(EXAMPLE, SHAKESPEARE, "ROMEO:", cwd=self.folder), expected.out.decode())

    def test_the_page_shows_what_its_code_prints(self):
        python(os.path.join(HERE, "python", "page.py"), os.path.join(SOURCE, "docs", "python.md"), cwd=self.folder)


if __name__ == "__main__":
    if reason := reason_to_skip(pythons.choose()):
        print(f"skipped: Python package: {reason}")
        sys.exit(0)
    unittest.main()
