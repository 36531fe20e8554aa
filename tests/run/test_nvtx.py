"""Ranges for NVIDIA's profilers (NVTX): named after functions and results of the IR. A library that NVTX loads in a profiler's
place records them; no GPU is needed."""

import collections
import json
import os
import re
import unittest

from kilntest import CONFIG, KilnTest, write_model

RECORDER = os.environ.get("KILN_NVTX_RECORDER", "")


@unittest.skipUnless(os.path.exists(RECORDER), "needs nvtx3/nvToolsExt.h of the CUDA toolkit")
class Ranges(KilnTest):
    def setUp(self):
        super().setUp()
        self.model = write_model(self.path("model"), {**CONFIG, "n_layer": 1})

    def record(self, *options, device="emulate"):
        """The paths of all ranges, outermost first, in the order of their beginnings."""
        command = [self.model, "--tokens", "1,2,3", "--max-new-tokens", 3, "--greedy", *options]
        environment = {**os.environ, "NVTX_INJECTION64_PATH": RECORDER, "KILN_NVTX_RECORD": self.path("record")}
        results = self.run_json(*command, device=device, env=environment)
        self.assertEqual([result["tokens"] for result in results], [result["tokens"] for result in self.run_json(*command, device=device)])
        paths, open_ranges = [], collections.defaultdict(list)
        with open(self.path("record"), encoding="utf-8") as file:
            for line in file:
                thread, event = line.rstrip("\n").split(" ", 1)
                if event == "-":
                    open_ranges[thread].pop()
                else:
                    open_ranges[thread].append(event[1:])
                    paths.append(tuple(open_ranges[thread]))
        self.assertFalse(any(open_ranges.values()), "every range ends")
        return paths

    def test_steps_are_named_after_the_ir(self):
        paths = self.record("--logprobs", 0)
        self.assertEqual([path for path in paths if len(path) == 1], [("prompts",), ("first token",), ("decode",), ("decode",)])
        steps = [path[2] for path in paths if path[:2] == ("prompts", "@prefill, while weights are loaded") and len(path) == 3]
        self.assertIn("%act.0 layernorm_matmul_bias_gelu__f32__n128_k32__t1", [re.sub(r"__r\d+.*", "", step) for step in steps])
        # Later calls are graphs, with a range each.
        self.assertEqual([path for path in paths if path[0] == "decode"],
                         2 * [("decode",), ("decode", "@decode B=1 T=1"), ("decode", "sample")])

    def test_each_step_of_each_call(self):
        paths = self.record("--strategy", "graphs=off")
        decode = [path[2] for path in paths if path[:2] == ("decode", "@decode B=1 T=1") and len(path) == 3]
        self.kiln("compile", self.model, "--strategy", "graphs=off", "--stage", "cuda", "--quiet", "-o", self.path("plan"))
        with open(self.path("plan/plan.toml"), encoding="utf-8") as file:
            text = file.read()
        function = text[text.index('name = "decode"'):]
        kernels = re.findall(r'(?m)^  \{kernel = "([^"]*?)(?:__r\d+)?"', function.split("[[functions]]")[0])
        self.assertEqual([re.sub(r"^%\S+ |__r\d+$", "", step) for step in decode], 2 * kernels)
        self.assertTrue(any(step.startswith("%logits ") for step in decode), decode)

    def test_tokens_that_the_device_chooses(self):
        paths = self.record()
        self.assertIn("@decode B=1 T=1, @sample B=1 T=1", [path[-1] for path in paths])

    def test_the_reference_executor(self):
        paths = self.record("--echo", "--logprobs", 0, device="cpu")
        self.assertEqual(paths[:3], [("echo",), ("prompts",), ("first token",)])


if __name__ == "__main__":
    unittest.main()
