"""A row has the same bits in @verify and in @decode, so both run by the same templates with the same settings: all but the
number of queries, and those that change no row's sums."""

import os
import re
import tomllib
import unittest

from kilntest import SHAKESPEARE, KilnTest

# Settings of which the bits of a row do not depend: tests/kernels and tests/runtime/BatchTest.cpp show that.
FREE = {
    "attention/simt_split_kv.cuh": {"kQueries", "kSplits", "kWarps", "kStages"},
    "attention/cluster_split_kv.cuh": {"kQueries", "kSplits", "kWarps", "kStages"},
    "elementwise/map.cuh": {"kThreads", "kVec", "kUnroll"},
    "gemv/wgmma_rows.cuh": {"kRows", "kN", "kRowStages", "kStages", "kShared"},
    "gemm/wgmma_tiled.cuh": None,  # adds along the whole depth
}


class Verify(KilnTest):
    def settings(self, plan, kernel):
        with open(os.path.join(plan, "kernels", kernel + ".cu")) as file:
            source = file.read()
        template = re.findall(r'#include "(.*)"', source)[-1]
        config = dict(re.findall(r"\b(k\w+) = (\w+)", source))
        free = FREE.get(template, set())
        return template, {} if free is None else {name: value for name, value in config.items() if name not in free}

    def kernels(self, plan, function):
        """For each step, the templates and settings of its kernels."""
        with open(os.path.join(plan, "plan.toml"), "rb") as file:
            steps = next(f["steps"] for f in tomllib.load(file)["functions"] if f["name"] == function)
        for step in steps:
            names = [step["kernel"]] + [variant["kernel"] for variant in step.get("variants", [])]
            yield [self.settings(plan, name) for name in names]

    def check(self, *options):
        plan = self.path("plan")
        self.kiln("compile", SHAKESPEARE, "--stage", "cuda", "--quiet", "--draft-tokens", 4, "-o", plan, *options)
        decode, verify = list(self.kernels(plan, "decode")), list(self.kernels(plan, "verify"))
        self.assertEqual(len(decode), len(verify))
        for one, several in zip(decode, verify):
            for settings in one + several:
                self.assertEqual(settings, one[0])

    def test_without_tensor_cores(self):
        self.check("--target", "sm_80")

    def test_one_sequence(self):
        self.check("--target", "sm_90a", "--dtype", "bf16", "--max-batch", 1)

    def test_several_sequences(self):
        self.check("--target", "sm_90a", "--dtype", "bf16", "--max-batch", 16)

    def test_tensor_cores_without_tma(self):
        for batch in (1, 16):
            self.check("--target", "sm_80", "--dtype", "f16", "--max-batch", batch)


if __name__ == "__main__":
    unittest.main()
