"""Kernels of the embedded model's plan are dumped, broken by an edit, and run again. Each error is reported at its
line."""

import os
import re
import unittest

from kilntest import SHAKESPEARE, KilnTest, run_kiln

EMBED = "embed__f32__n256"
TILED = "matmul_bias_residual__f32__n256_k256"
NORM = "layernorm_matmul_bias_gelu__f32__n1024_k256"

STORE = "store(embed_out + i64(row) * 256 + col, value);"
MEANS = "means[r] = warpSum(sums[r]) / float(depth);"
FIRST_TILE = """    commit(0, 0);
    syncThreads();
"""


class BrokenKernels(KilnTest):
    dumped = {}

    def setUp(self):
        super().setUp()
        if not self.dumped:
            plan = self.path("plan")
            self.kiln("compile", SHAKESPEARE, "--max-batch", 1, "--stage", "cuda", "--quiet", "-o", plan)
            self.kiln("dump", plan, "--what", "cuda", "-o", self.path("dump"))
            for kernel in (EMBED, TILED, NORM):
                with open(self.path("dump", "cuda", kernel + ".cu"), encoding="utf-8") as file:
                    self.dumped[kernel] = file.read()

    def run_edited(self, kernels):
        for kernel, text in kernels.items():
            self.write(f"edited/{kernel}.cu", text)
        return run_kiln("run", SHAKESPEARE, "--tokens", "1,2,3", "--greedy", "--max-new-tokens", 1, "--quiet", "--device",
                        "emulate", "--kernels-from", self.path("edited"))

    def check(self, kernel, old, new, message, place="// here"):
        """Replaces `old` by `new` in a kernel. The program reports `message`, a pattern, at the line that contains
        `place`."""
        text = self.dumped[kernel]
        self.assertEqual(text.count(old), 1)
        text = text.replace(old, new)
        lines = [number for number, line in enumerate(text.splitlines(), 1) if place in line]
        self.assertEqual(len(lines), 1, lines)
        result = self.run_edited({kernel: text})
        self.assertEqual(result.code, 1, result.err)
        where = re.escape(f"{self.path('edited', kernel)}.cu:{lines[0]}: error: kernel {kernel}: block (")
        self.assertRegex(result.err, f"^{where}[0-9,]*\\): {message}")
        self.assertRegex(result.err, "config.json:[0-9]+: note: the kernel computes %")

    def test_intact(self):
        result = self.run_edited(self.dumped)
        self.assertEqual(result.code, 0, result.err)

    def test_write_past_a_tensor(self):
        # The bug is at the edge of the rows: only the last row is written past the end, into another tensor of the
        # arena.
        self.check(EMBED, STORE, "store(embed_out + i64(row + 1) * 256 + col, value); // here",
                   r"thread \d+ writes 16 bytes outside '%x.0' \(\d+ bytes\), at offset \d+")

    def test_read_past_a_tensor(self):
        self.check(EMBED, STORE, "store(embed_out + i64(row) * 256 + col,\nkiln::load<V>(wpe + i64(row + 1022) * 256 + col)); // here",
                   r"thread \d+ reads 16 bytes outside '%wpe'")

    def test_write_to_an_input(self):
        self.check(EMBED, STORE, "store(const_cast<float *>(wpe) + col, value); // here",
                   r"thread \d+ writes '%wpe', which is an input of the kernel")

    def test_misaligned_access(self):
        self.check(EMBED, STORE, "store(embed_out + i64(row) * 256 + col + 1, value); // here",
                   r"thread \d+: misaligned vector access")

    def test_read_of_what_nobody_wrote(self):
        self.check(EMBED, STORE, "store(embed_out + i64(row) * 256 + col,\nkiln::load<V>(embed_out + i64(row) * 256 + col)); // here",
                   r"thread \d+ reads what nothing has written, in '%x.0' at offset \d+")

    def test_missing_barrier(self):
        # The first thread reads the tile before the others have written their parts of it.
        self.check(TILED, FIRST_TILE, "    commit(0, 0);\n", r"thread 0 reads shared memory that nothing has written",
                   place="const Vec<float, Shape::kGroup> group = load")

    def test_missing_barrier_between_tiles(self):
        # Both buffers already hold tiles, so poison cannot reveal the error.
        self.check(TILED, "      commit(next, buffer);\n      syncThreads();\n",
                   "      commit(next, buffer);\n      if (origin == 0)\n        syncThreads();\n",
                   r"thread \d+ writes shared memory that thread \d+ has read since the last barrier",
                   place="tile[k(i) + j][swizzled<kTileDepth>(k(i), index(i))] = values[j]")

    def test_divergent_collective(self):
        self.check(NORM, MEANS, "if (laneIndex() < 16)\n" + MEANS + "\nelse means[r] = shuffle(sums[r], 0); // here",
                   r"thread 16 takes part in this collective, but others of its warp wait at another one")

    def test_thread_that_leaves(self):
        self.check(TILED, FIRST_TILE, "    if (threadIndex() == 40)\n      return;\n    commit(0, 0);\n    syncThreads(); // here\n",
                   r"threads? [-\d, ]+ waits? (here|at this barrier), but")

    def test_barrier_that_never_opens(self):
        # One lane waits for the block, while the other lanes of its warp wait for that lane.
        self.check(NORM, "    " + MEANS, "  {\n    if (laneIndex() == 0)\n      syncThreads();\n    " + MEANS + " // here\n  }",
                   r"thread 1 waits here for threads that wait elsewhere")


if __name__ == "__main__":
    unittest.main()
