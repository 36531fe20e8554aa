"""The emulated device's cache of compiled kernels: progress is shown while it compiles, and a damaged library is
compiled again."""

import glob
import os
import shutil
import unittest

from kilntest import SHAKESPEARE, KilnTest

KERNEL = "embed__f32__n256"
# No other test's kernel contains this line, so this test may damage its entry.
MARK = "constexpr int kOnlyInTheCacheTest = 1;\n"


class EmulatedCache(KilnTest):
    def setUp(self):
        super().setUp()
        os.environ.setdefault("KILN_CACHE", self.path("cache"))
        plan = self.path("plan")
        self.kiln("compile", SHAKESPEARE, "--max-batch", 1, "--stage", "cuda", "--quiet", "-o", plan)
        self.kiln("dump", plan, "--what", "cuda", "--kernel", KERNEL, "-o", self.path("dump"))
        with open(self.path("dump", "cuda", KERNEL + ".cu"), encoding="utf-8") as file:
            self.write(f"edited/{KERNEL}.cu", file.read() + MARK)
        self.remove_entries()
        self.addCleanup(self.remove_entries)

    def entries(self):
        """The cache's folders of the edited kernel."""
        found = []
        for path in glob.glob(os.path.join(os.environ["KILN_CACHE"], "emulated", "*", KERNEL + ".cu")):
            with open(path, encoding="utf-8") as file:
                if MARK in file.read():
                    found.append(os.path.dirname(path))
        return found

    def remove_entries(self):
        for folder in self.entries():
            shutil.rmtree(folder)

    def generate(self, *options):
        return self.kiln("run", SHAKESPEARE, "--tokens", "1,2,3", "--greedy", "--max-new-tokens", 1, "--check", "none", "--device",
                         "emulate", "--kernels-from", self.path("edited"), *options)

    def test_progress_and_healing(self):
        def shown(result):
            return f"] {KERNEL}\n" in result.err

        first = self.generate()
        self.assertTrue(shown(first), first.err)
        second = self.generate()
        self.assertFalse(shown(second), second.err)
        self.assertEqual(second.out, first.out)

        for folder in self.entries():
            os.truncate(os.path.join(folder, KERNEL + ".so"), 8192)
        healed = self.generate()
        self.assertTrue(shown(healed), healed.err)
        self.assertEqual(healed.out, first.out)

        self.remove_entries()
        quiet = self.generate("--quiet")
        self.assertEqual(quiet.err, "")
        self.assertEqual(quiet.out, first.out)


if __name__ == "__main__":
    unittest.main()
