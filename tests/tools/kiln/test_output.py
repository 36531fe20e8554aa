"""Output that cannot be written, and compiles that are interrupted: exit code 1 or a signal, and no leftovers."""

import os
import re
import resource
import shutil
import signal
import subprocess
import unittest

from kilntest import CONFIG, KILN, TIMEOUT, KilnTest, snapshot

TEXT = "".join(f"{key} = {value}\n" for key, value in CONFIG.items() if key != "model_type")
KILN_OPT = KILN + "-opt"


class Unwritable(KilnTest):
    def setUp(self):
        super().setUp()
        self.model = self.write("m.toml", TEXT)
        self.plan = self.path("m.plan")
        self.kiln("compile", self.model, "--stage", "cuda", "--quiet", "-o", self.plan)

    def commands(self, output):
        """A command that writes a directory there, and one that writes a file."""
        return ([["compile", self.model, "--stage", "cuda", "--quiet", "-o", output], ["dump", self.plan, "--what", "cuda", "-o", output]],
                [["compile", self.model, "--stage", "graph", "-o", output]])

    def test_places(self):
        for output, reason in (("/proc/none/x", "No such file"), ("/dev/null/x", "Not a directory"), ("/dev/full", ""),
                               (self.path("m.toml/x"), "Not a directory"), (self.path("n" * 300), "File name too long")):
            directories, files = self.commands(output)
            for command in directories + files:
                with self.subTest(command=command):
                    self.assert_fails("error: cannot write: " + reason, *command)
        self.assert_fails("m.toml: error: cannot write: expected a directory, got a file", *self.commands(self.model)[0][0])
        self.assert_fails(": error: cannot write: Is a directory", *self.commands(self.folder)[1][0])

    def test_full(self):
        """A limit on file sizes makes a write fail, like a full disk, here at every step."""
        sizes = sorted(os.path.getsize(os.path.join(root, file)) for root, _, files in os.walk(self.plan) for file in files)
        for limit in (0, 100, *sizes[: -1 : len(sizes) // 4], sizes[-1] - 1):
            directories, files = self.commands(self.path("out"))
            for command in directories + (files if limit <= 100 else []):
                with self.subTest(command=command, limit=limit):
                    self.assert_fails("error: cannot write: File too large", *command, preexec_fn=lambda: limit_size(limit))

    def test_full_after_success(self):
        """The output of an earlier run is unchanged."""
        before = snapshot(self.folder)
        self.assert_fails("error: cannot write: File too large", *self.commands(self.plan)[0][0], preexec_fn=lambda: limit_size(1000))
        self.assertEqual(snapshot(self.folder), before)

    def test_kiln_opt(self):
        module = os.path.join(self.plan, "ir", "graph.kiln")
        before = snapshot(self.folder)
        result = subprocess.run([KILN_OPT, module, "-o", self.path("out")], capture_output=True, preexec_fn=lambda: limit_size(100))
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"out: error: cannot write: File too large", result.stderr)
        self.assertEqual(snapshot(self.folder), before)
        with open("/dev/full", "wb") as full:
            result = subprocess.run([KILN_OPT, module], stdout=full, stderr=subprocess.PIPE)
        self.assertEqual((result.returncode, result.stderr), (1, b"error: standard output: cannot write: No space left on device\n"))


class Ended(KilnTest):
    def test_signals(self):
        """A compile that is interrupted while it compiles kernels leaves an earlier plan whole, or nothing if there was
        none."""
        model = self.write("m.toml", TEXT)
        self.kiln("compile", model, "--stage", "cuda", "--quiet", "-o", self.path("old"))
        before = snapshot(self.folder)
        for number, output in ((signal.SIGKILL, "old"), (signal.SIGTERM, "new"), (signal.SIGINT, "old")):
            process = subprocess.Popen([KILN, "compile", model, "--no-cache", "--target", "sm_80,sm_86,sm_90a", "-o",
                                        self.path(output)], stderr=subprocess.PIPE)
            self.assertNotEqual(process.stderr.read(1), b"", "progress is shown")
            process.send_signal(number)
            process.stderr.read()
            process.stderr.close()
            self.assertEqual(process.wait(TIMEOUT), -number)
            self.assertEqual(snapshot(self.folder), before)


class PlansOfEditedModules(KilnTest):
    """Users can edit attributes that passes write in IR text. A plan that the reader would refuse is not written."""

    def setUp(self):
        super().setUp()
        model = self.write("m.toml", TEXT)
        self.text = self.kiln("compile", model, "--stage", "plan").out.decode()
        shutil.rmtree(self.path("m.plan"), ignore_errors=True)

    def assert_refused(self, message, old, new):
        self.assertIn(old, self.text)
        module = self.write("m.kiln", self.text.replace(old, new, 1))
        self.assert_fails(message, "compile", module, "--stage", "cuda", "-o", self.path("plan"))

    def test_the_module_is_good(self):
        module = self.write("m.kiln", self.text)
        self.kiln("compile", module, "--stage", "cuda", "--quiet", "-o", self.path("plan"))

    def test_tiles(self):
        start = self.text.index("kernel = gemv_simt, rows = ")
        tile = self.text[start : self.text.index("}", start)]
        for value, message in (("64", "expected 1 to 1024 threads a block, got 2048 with {"), ("0", "expected settings of gemv_simt, like {"),
                               ("-1", "expected settings of "), ("1048577", "expected settings of "),
                               (str(2**63 - 1), "expected settings of ")):
            self.assert_refused("attribute 'tile': " + message, tile, re.sub(r"warps = \d+", "warps = " + value, tile))

    def test_shared_memory(self):
        self.assert_refused("attribute 'tile': expected at most 232448 bytes of shared memory a block, got ",
                            "tile_keys = 64", "tile_keys = 4096")

    def test_places(self):
        prefix = "m.kiln:1:1: error: module @m makes a plan that cannot run: "
        arena = self.text[self.text.index('arena = "') :].split(",")[0]
        for old, new, message in ((arena, 'arena = "X"', "arena: no value for dim 'X'"),
                                  (arena, 'arena = "16"', "offset: buffer 'x.0' reaches past the arena"),
                                  (arena, 'arena = "9223372036854775807*B"', "arena: '9223372036854775807*B' is past 64 bits"),
                                  ('offsets = ["0"', 'offsets = ["8"', "offset: expected a multiple of 16, got 8")):
            self.assert_refused(prefix + message, old, new)


def limit_size(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


if __name__ == "__main__":
    unittest.main()
