"""A row has the same bits in @verify and in @decode, and in plans for one sequence and for more. So all of them run by the
same templates with the same settings: all but the number of queries, and those that change no row's sums. Templates of
tensor cores that cut the depth alike count as one."""

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
}

# The ranges of the depth, and the chains of each: templates of tensor cores that have the same give the same bits.
CUTS = {
    "gemv/mma_warps.cuh": lambda config: (config["kRanges"], config["kChains"]),
    "gemv/wgmma_rows.cuh": lambda config: (config["kParts"] * config["kGroups"], config["kChains"]),
    "gemm/wgmma_tiled.cuh": lambda config: (config["kParts"], 1),
}


class Verify(KilnTest):
    def settings(self, plan, kernel):
        with open(os.path.join(plan, "kernels", kernel + ".cu")) as file:
            source = file.read()
        template = re.findall(r'#include "(.*)"', source)[-1]
        config = dict(re.findall(r"\b(k\w+) = (\w+)", source))
        if template in CUTS:
            config = {name: int(value) for name, value in config.items() if value.isdigit()}
            return "a product", config["kCols"], config["kDepth"], CUTS[template](config)
        free = FREE.get(template, set())
        return template, {name: value for name, value in config.items() if name not in free}

    def kernels(self, plan, function):
        """For each step, the templates and settings of its kernels."""
        with open(os.path.join(plan, "plan.toml"), "rb") as file:
            steps = next(f["steps"] for f in tomllib.load(file)["functions"] if f["name"] == function)
        for step in steps:
            names = [step["kernel"]] + [variant["kernel"] for variant in step.get("variants", [])]
            yield [self.settings(plan, name) for name in names]

    def compile(self, name, *options):
        plan = self.path(name)
        self.kiln("compile", SHAKESPEARE, "--stage", "cuda", "--quiet", "-o", plan, *options)
        return plan

    def check(self, *options):
        plan = self.compile("plan", "--draft-tokens", 4, *options)
        decode, verify = list(self.kernels(plan, "decode")), list(self.kernels(plan, "verify"))
        self.assertEqual(len(decode), len(verify))
        for one, several in zip(decode, verify):
            for settings in one + several:
                self.assertEqual(settings, one[0])

    def test_plans_for_one_sequence_and_for_more(self):
        options = ("--target", "sm_90a", "--dtype", "bf16")
        plans = [self.compile("one", "--max-batch", 1, "--decode", "graph", *options), self.compile("many", "--max-batch", 64, *options),
                 self.compile("drafts", "--max-batch", 1, "--draft-tokens", 4, *options)]
        for steps in zip(*(self.kernels(plan, "decode") for plan in plans), strict=True):
            for settings in sum(steps, []):
                self.assertEqual(settings, steps[0][0])

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
