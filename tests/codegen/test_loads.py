"""Loads and copies that a template issues before waitForDependencies() must stay before it in machine code, though ptxas
may move them: weights are loaded while the previous kernel still runs. No load may use the non-coherent path, which does
not see the writes of that kernel, and no copy of what it writes may be issued before the wait. Arrivals that let copies
write must stay behind the loads of what is there."""

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
    "attention/simt_split_kv.cuh": lambda config: 2 * 4 * config["kStages"],
}

# The same for templates whose warps copy what they multiply, 16 bytes a lane by cp.async, of 8 columns of a step by 2.
LANE_COPIES_AHEAD = {
    "gemv/mma_warps.cuh": lambda config: 2 * config["kTilesN"] * config["kUnroll"],
}

# The same for templates whose producer thread copies boxes by TMA: the copies of the weight's.
COPIES_AHEAD = {
    "gemv/wgmma_rows.cuh": lambda config: config["kGroups"] * config["kStages"],
    "gemm/wgmma_tiled.cuh": lambda config: min(-(-config["kDepth"] // 64 // config["kParts"]), config["kStages"]),
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

    def until_wait(self, first=0):
        """The instructions from number `first` on that are in front of a wait for the kernels before."""
        wait = next(i for i, name in enumerate(self.instructions) if i >= first and name.startswith("ACQBULK"))
        return self.instructions[first:wait]

    @property
    def loads_ahead(self):
        """The number of 16-byte loads before the wait."""
        return sum(name.startswith("LDG.") and ".128" in name for name in self.until_wait())

    @property
    def lane_copies_ahead(self):
        return sum(name.startswith("LDGSTS") for name in self.until_wait())

    @property
    def copies_ahead(self):
        """The ranks of the tensors that the producer copies boxes of before it waits; the weight's map has rank 5."""
        first = next(i for i, name in enumerate(self.instructions) if name.startswith("UTMALDG"))
        return [name.split(".")[1] for name in self.until_wait(first) if name.startswith("UTMALDG")]

    @property
    def misorder(self):
        """What is wrong with the order of loads, copies and wait; None: nothing."""
        if self.template in COPIES_AHEAD:
            wanted, copies = COPIES_AHEAD[self.template](self.config), self.copies_ahead
            return None if copies == ["5D"] * wanted else f"{copies} in front of the wait, not {wanted} of the weight"
        if self.template in LANE_COPIES_AHEAD:
            wanted, copies = LANE_COPIES_AHEAD[self.template](self.config), self.lane_copies_ahead
            return None if copies >= wanted else f"{copies} of {wanted} copies in front of the wait"
        wanted = LOADS_AHEAD[self.template](self.config)
        return None if self.loads_ahead >= wanted else f"{self.loads_ahead} of {wanted} loads in front of the wait"

    @property
    def arrivals_behind_loads(self):
        """Of arriveBehindLoads(): the number of arrivals is in a register that depends on the loads. Not so if the
        assembler finds out that it is always one."""
        return sum(name.startswith("SYNCS.ARRIVE") and name.endswith("ART0") for name in self.instructions)

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
    def kernels(self, dtype, targets):
        plan = self.path(f"{dtype}-{targets}")
        self.kiln("compile", os.path.join(SOURCE, "graphs", "gpt2-124m.toml"), "--dtype", dtype, "--target", targets,
                  "--quiet", "-o", plan)
        with open(os.path.join(plan, "plan.toml"), "rb") as file:
            names = launched(tomllib.load(file), ("decode", "sample"))
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(lambda name: Kernel(plan, name), names))

    def check(self, dtype, template, targets=TARGET):
        """`template`: what most products of decode must run on."""
        kernels = self.kernels(dtype, targets)
        blind = {kernel.name: kernel.loads_that_see_no_writes for kernel in kernels if kernel.loads_that_see_no_writes}
        ahead = [kernel for kernel in kernels if not kernel.waits_at_its_start]
        late = {kernel.name: kernel.misorder for kernel in ahead if kernel.misorder}
        self.assertEqual((blind, late), ({}, {}))
        self.assertGreaterEqual(len(ahead), 10, "products for several numbers of rows, and attention")
        self.assertGreaterEqual(sum(kernel.template == template for kernel in ahead), 5)

    def test_bf16(self):
        self.check("bf16", "gemv/mma_warps.cuh")

    def test_bf16_of_any_gpu(self):
        self.check("bf16", "gemv/mma_rows.cuh", f"sm_80,{TARGET}")

    def test_f32(self):
        self.check("f32", "gemv/simt_rows.cuh")

    def test_one_kernel_for_all_layers(self):
        """Its warps take parts of weights at 9 places, and give their stages back: 4 times ahead, 5 in loops. Nothing of
        it is in local memory, which is slow behind the copies of weights."""
        plan = self.path("persistent")
        self.kiln("compile", os.path.join(SOURCE, "graphs", "gpt2-124m.toml"), "--dtype", "bf16", "--decode", "persistent",
                  "--max-batch", 1, "--quiet", "-o", plan)
        (name,) = (name[:-3] for name in os.listdir(os.path.join(plan, "kernels")) if name.startswith("decode_layers"))
        kernel = Kernel(plan, name)
        self.assertGreaterEqual(kernel.arrivals_behind_loads, 9)
        self.assertEqual([name for name in kernel.instructions if name.startswith(("LDL", "STL"))], [])


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    if result.wasSuccessful() and result.skipped:
        print("skipped: no nvdisasm")
    sys.exit(not result.wasSuccessful())
