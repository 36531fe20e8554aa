"""Every kernel of all four sizes of GPT-2 compiles through NVRTC and keeps its values in registers. Dumped to a file, a
kernel compiles with nvcc alone. Compiled kernels come from the cache, so only the first run takes long."""

import hashlib
import os
import re
import subprocess
import unittest
from concurrent.futures import ThreadPoolExecutor

from kilntest import KilnTest, SOURCE

# Bytes, in kernels of plans that are not the default: ptxas spills a register or two, outside loops, if that lets another
# block reside on the multiprocessor.
MOST_SPILLED = 32

NVCC = os.environ.get("NVCC", "")

# Together they choose every kernel that only strategies choose, and every part of a kernel that depends on strategies.
STRATEGIES = ("matmul=naive,attention=naive,layernorm=1,softmax=thread,fusion=off",
              "attention=reduction,layernorm=2,fusion=off,parameters=constant",
              "attention=triangular{rung=1},layernorm=3,softmax=warp",
              "attention=triangular{rung=2},layernorm=4",
              "attention=triangular{rung=3},layernorm=5",
              "attention=triangular{rung=4},layernorm=best",
              "attention=flash_naive,elementwise=map{threads=64,unroll=8}",
              "attention=windowed,restrict=on",
              "precision=tf32,attention=tensor,matmul=wmma",
              "precision=bf16,attention=windowed,matmul=split_k,parameters=constant{biases=1}")


def declared_shared(path):
    """The static shared memory that a generated kernel asserts."""
    with open(path) as file:
        return int(re.search(r"== SharedBytes\{(\d+), \d+\}", file.read()).group(1))


class EverySize(KilnTest):
    def compile(self, size, dtype, targets, *options):
        """`dtype`: None if the options choose it."""
        return self.compile_model(f"gpt2-{size}.toml", dtype, targets, *options)

    def compile_model(self, model, dtype, targets, *options):
        plan = self.path(f"{model}-{dtype}")
        if dtype:
            options = ("--dtype", dtype, *options)
        self.kiln("compile", os.path.join(SOURCE, "graphs", model), "--target", ",".join(targets), "--quiet", "-o", plan,
                  *options)
        rows = self.kiln("dump", plan, "--what", "resources").out.decode().splitlines()[2:]
        kernels = [name[: -len(".cu")] for name in os.listdir(os.path.join(plan, "kernels"))]
        self.assertEqual(len(rows), len(kernels) * len(targets))
        is_default = dtype == "bf16" and targets == ["sm_90a"] and "--ranks" not in options
        most_spilled = 0 if is_default else MOST_SPILLED
        asserted = {name: declared_shared(os.path.join(plan, "kernels", name + ".cu")) for name in kernels
                    if not name.startswith("sample")}
        for row in rows:
            name, target, registers, shared, _, stores, loads = [cell.strip() for cell in row.strip("|").split("|")]
            with self.subTest(model=model, kernel=name, target=target):
                self.assertIn(name, kernels)
                self.assertTrue(0 < int(registers) <= 255)
                if name in asserted:
                    self.assertEqual(int(shared), asserted[name])
                self.assertLessEqual(int(shared), 48 * 1024, "static shared memory has this limit on every target")
                self.assertLessEqual(max(int(stores), int(loads)), most_spilled)
                self.assertGreater(os.path.getsize(os.path.join(plan, "cubin", target, name + ".cubin")), 0)
        return plan

    def test_every_size(self):
        for size in ("124m", "355m", "774m", "1558m"):
            self.compile(size, "bf16", ["sm_90a"])
        # In f32, other sizes have the same kernels with other extents.
        self.compile("124m", "f32", ["sm_90a"])

    # Only extents differ between sizes, and targets do not affect them, so one size suffices.
    def test_every_target(self):
        self.compile("124m", "f32", ["sm_86"])
        self.compile("124m", "bf16", ["sm_80", "sm_90a"])  # kernels that both run

    def test_ranks(self):
        for options in (("--decode", "graph", "--max-batch", 2), ("--decode", "persistent", "--max-batch", 1)):
            with self.subTest(options=options):
                self.compile_model("shakespeare-5m", "bf16", ["sm_90a"], "--ranks", 2, *options)

    # Strategies choose kernels of prompts, and for one sequence; of several, they have those of the default plan.
    def test_every_strategy(self):
        for strategy in STRATEGIES:
            with self.subTest(strategy=strategy):
                self.compile("124m", None, ["sm_90a"], "--strategy", strategy, "--max-batch", 1)


@unittest.skipUnless(os.access(NVCC, os.X_OK), "no nvcc")
class SelfContained(KilnTest):
    def compile(self, path):
        """Compiles a dumped kernel with nvcc, unless the cache records that this has been done."""
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        stamp = os.path.join(os.environ["KILN_CACHE"], f"nvcc-{digest}")
        if os.path.exists(stamp):
            return
        result = subprocess.run([NVCC, "-c", "-std=c++17", "-arch=sm_90a", path, "-o", path + ".o"],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(stamp, "w"):
            pass

    def test_one_kernel_of_each_template(self):
        chosen = {}
        for dtype, target in (("bf16", "sm_90a"), ("bf16", "sm_80"), ("f32", "sm_90a")):
            plan, dump = self.path(dtype + target), self.path(dtype + target + "-dump")
            self.kiln("compile", os.path.join(SOURCE, "graphs", "gpt2-124m.toml"), "--dtype", dtype, "--target", target,
                      "--stage", "cuda", "--quiet", "-o", plan)
            self.kiln("dump", plan, "--what", "cuda", "-o", dump)
            for name in sorted(os.listdir(os.path.join(plan, "kernels"))):
                with open(os.path.join(plan, "kernels", name)) as file:
                    template = re.findall(r'#include "(.*)"', file.read())[-1]
                chosen.setdefault(template, os.path.join(dump, "cuda", name))
        self.assertGreaterEqual(len(chosen), 8, chosen)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(self.compile, chosen.values()))


if __name__ == "__main__":
    unittest.main()
