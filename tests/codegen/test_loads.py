"""Loads that a template issues before waitForDependencies() must stay before it in machine code, though ptxas may move
them: weights are loaded while the previous kernel still runs. No load may use the non-coherent path, which does not see
the writes of that kernel."""

import os
import re
import subprocess
import sys
import tomllib
import unittest
from concurrent.futures import ThreadPoolExecutor

from kilntest import KilnTest, SOURCE

NVDISASM = os.environ.get("NVDISASM", "")
TARGET = "sm_90a"

# For each template that calls waitForDependencies() itself: the number of 16-byte loads that a thread issues before it.
# They are of weights in gemv/, and of keys and values in attention/.
LOADS_AHEAD = {
    "gemv/simt_row.cuh": lambda config: config["kColsPerWarp"] * config["kUnroll"],
    "gemv/simt_rows.cuh": lambda config: config["kColsPerWarp"] * config["kUnroll"],
    "gemv/mma_rows.cuh": lambda config: 2 * config["kUnroll"],
    "attention/cluster_split_kv.cuh": lambda config: 2 * 4 * config["kStages"],
}


class Kernel:
    """The source and the machine code of a kernel of a plan."""

    def __init__(self, plan, name):
        self.name = name
        with open(os.path.join(plan, "kernels", name + ".cu")) as file:
            self.source = file.read()
        cubin = os.path.join(plan, "cubin", TARGET, name + ".cubin")
        listing = subprocess.run([NVDISASM, "-c", cubin], check=True, capture_output=True, text=True).stdout
        # `/*0350*/  @!P1 LDG.E.NA.128 R32, desc[UR6][R10.64] ;`
        self.instructions = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@\S+\s+)?([A-Z][A-Z0-9_.]*)", listing)

    @property
    def template(self):
        return re.findall(r'#include "(.*)"', self.source)[-1]

    @property
    def config(self):
        return {name: int(value) for name, value in re.findall(r"\b(k\w+) = (\d+)", self.source)}

    @property
    def waits_at_its_start(self):
        return "waitForDependencies();" in self.source

    @property
    def loads_ahead(self):
        """The number of 16-byte loads before the wait."""
        wait = next(i for i, name in enumerate(self.instructions) if name.startswith("ACQBULK"))
        return sum(name.startswith("LDG.") and ".128" in name for name in self.instructions[:wait])

    @property
    def loads_that_see_no_writes(self):
        return sum(name.startswith("LDG.") and "CONSTANT" in name for name in self.instructions)


def launched(plan, functions):
    """The kernels that the functions' steps launch, in all variants."""
    steps = [step for function in plan["functions"] if function["name"] in functions for step in function["steps"]]
    return sorted({launch["kernel"] for step in steps for launch in (step, *step.get("variants", ()))})


class Templates(unittest.TestCase):
    def test_none_reads_past_writes(self):
        """No template contains such a load, so kernels of other functions contain none either."""
        found = []
        for folder, _, files in os.walk(os.path.join(SOURCE, "templates")):
            for name in files:
                with open(os.path.join(folder, name)) as file:
                    found += [f"{name}: {line.strip()}" for line in file if re.search(r"__ldg|ld\.global\S*\.nc", line)]
        self.assertEqual(found, [])


@unittest.skipUnless(os.access(NVDISASM, os.X_OK), "no nvdisasm")
class Loads(KilnTest):
    def kernels(self, dtype):
        plan = self.path(dtype)
        self.kiln("compile", os.path.join(SOURCE, "graphs", "gpt2-124m.toml"), "--dtype", dtype, "--target", TARGET,
                  "--quiet", "-o", plan)
        with open(os.path.join(plan, "plan.toml"), "rb") as file:
            names = launched(tomllib.load(file), ("decode", "sample"))
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(lambda name: Kernel(plan, name), names))

    def check(self, dtype):
        kernels = self.kernels(dtype)
        blind = {kernel.name: kernel.loads_that_see_no_writes for kernel in kernels if kernel.loads_that_see_no_writes}
        late, ahead = {}, [kernel for kernel in kernels if not kernel.waits_at_its_start]
        for kernel in ahead:
            wanted = LOADS_AHEAD[kernel.template](kernel.config)
            if kernel.loads_ahead < wanted:
                late[kernel.name] = f"{kernel.loads_ahead} of {wanted} loads in front of the wait"
        self.assertEqual((blind, late), ({}, {}))
        self.assertGreaterEqual(len(ahead), 10, "products for several numbers of rows, and attention")

    def test_bf16(self):
        self.check("bf16")

    def test_f32(self):
        self.check("f32")


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    if result.wasSuccessful() and result.skipped:
        print("skipped: no nvdisasm")
    sys.exit(not result.wasSuccessful())
