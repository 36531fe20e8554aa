"""Plans with one changed value, on the emulated device. Each run ends, with success or an error, but never with a
signal or a sanitizer's report. The numbers and names of a plan are checked when it is read, loaded and called; the
accesses of its kernels are checked one by one.

KILN_ALL_TAMPERINGS=1 runs all changes, which takes an hour of CPU time. Without it, a fixed sample is run.
"""

import os
import random
import shutil
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

import plantext
from kilntest import KilnTest, run_kiln

MODEL = "vocab_size = 29\nn_positions = 24\nn_embd = 32\nn_layer = 1\nn_head = 2\n"
SAMPLE = 100  # number of changes to try per plan
# Sizes are either a few kilobytes or more than any machine has: sizes in between would really be allocated.
HUGE = 2**63 - 1

# Keys whose values are formulas.
FORMULAS = ("arena", "live", "offset", "bytes", "flops", "counters", "grid", "shape", "extents", "strides", "rows", "cols", "depth", "batch")


def formulas(old):
    yield from (f"{old}+16", f"2*({old})", f"ceildiv({old},2)", f"16*({old})", f"B*({old})", f"T*({old})", f"max({old},T)",
                f"min({old},16)", "0", "1", "B", "T", "B*T", "16", "4096", "4099", f"{2**42}*B", f"{HUGE}", f"{HUGE}*B", "X",
                "")


def numbers(old):
    yield from dict.fromkeys((0, 1, -1, 2, old + 1, old - 1, 2 * old, old // 2, old + 32, 1024, 2**40, HUGE, -HUGE))


class Tamperer:
    """All changes of a plan's text, each as (description, changed text)."""

    def __init__(self, text):
        self.text = text
        self.sites = plantext.scan(text)
        self.alike = {}  # texts of values, by kind
        for site in self.sites:
            values = self.alike.setdefault(self.kind(site), [])
            if self.value(site) not in values:
                values.append(self.value(site))

    def value(self, site):
        return self.text[site.start : site.end]

    def kind(self, site):
        return site.key, self.value(site)[0] in '"[{' and self.value(site)[0]

    def changes(self):
        # Buffers of all layers have similar shapes, so a few sites of each kind suffice.
        seen = {}
        for site in self.sites:
            seen[site.pattern, self.value(site)] = seen.get((site.pattern, self.value(site)), 0) + 1
            if seen[site.pattern, self.value(site)] > 2:
                continue
            for value in dict.fromkeys(self.values(site)):
                if value != self.value(site):
                    yield f"{site.path} = {value[:60]}", plantext.replace(self.text, site, value)
            if site.is_member:
                yield f"no {site.path}", plantext.remove(self.text, site)
        yield from self.lists()

    def values(self, site):
        old = self.value(site)
        if old[0] == '"':
            if site.key in FORMULAS:
                yield from (f'"{formula}"' for formula in formulas(old[1:-1]))
            else:
                others = self.alike[self.kind(site)]
                at = others.index(old)
                yield from (others[at - 1], others[(at + 1) % len(others)], others[at - len(others) // 2], '""', '"none"', '"B"')
            yield "1"
        elif old in ("true", "false"):
            yield from ("true", "false", "1")
        elif old[0] in "[{":
            yield from self.alike[self.kind(site)][:3] if len(old) < 200 else ()
            yield from ("[]", "{}", "1")
        else:
            yield from map(str, numbers(int(old)))
            yield '"1"'

    def lists(self):
        """Removes, repeats and exchanges items of lists."""
        items = {}
        for site in self.sites:
            if not site.is_member:
                items.setdefault(site.path[:-1], []).append(site)
        for path, sites in items.items():
            for one, other in zip(sites, sites[1:]):
                first, second = self.value(one), self.value(other)
                between = self.text[one.end : other.start]
                for what, values in (("swapped", (second, first)), ("once", (second,)), ("twice", (first, first)), ("more", (first, first, second))):
                    text = self.text[: one.start] + between.join(values) + self.text[other.end :]
                    if text != self.text:
                        yield f"{one.path} {what}", text


class TamperedPlans(KilnTest):
    def tamper(self, *options):
        """`options`: those of kiln compile."""
        folder = tempfile.mkdtemp(prefix="kiln-test-")
        self.addCleanup(shutil.rmtree, folder)
        model = self.write("tiny.toml", MODEL)
        original = os.path.join(folder, "plan")
        self.kiln("compile", model, "--stage", "cuda", "--quiet", "-o", original, *options)
        with open(os.path.join(original, "plan.toml")) as file:
            text = file.read()
        result = self.run_plan(original, text)
        self.assertEqual((result.code, result.err), (0, ""), "nothing was changed")
        changes = list(Tamperer(text).changes())
        self.assertGreater(len(changes), 2000)
        if os.environ.get("KILN_ALL_TAMPERINGS") != "1":
            changes = random.Random(1).sample(changes, SAMPLE)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for (what, _), result in zip(changes, pool.map(lambda change: self.run_plan(original, change[1]), changes)):
                with self.subTest(what=what):
                    self.assert_ends(result)

    def run_plan(self, original, text):
        """Runs two prompts, so that rows are decoded side by side. Safe to call from several threads."""
        folder = tempfile.mkdtemp(prefix="plan-", dir=self.folder)
        for name in ("kernels", "ir"):
            os.symlink(os.path.join(original, name), os.path.join(folder, name))
        with open(os.path.join(folder, "plan.toml"), "w") as file:
            file.write(text)
        result = run_kiln("run", folder, "--device", "emulate", "--random-weights", 3, "--tokens", "1,2,3", "--tokens", "4,5",
                          "--max-new-tokens", 3, "--greedy", "--quiet")
        shutil.rmtree(folder)
        return result

    def assert_ends(self, result):
        self.assertIn(result.code, (0, 1), result.err)
        # A kernel that gets more threads than it is written for indexes past its arrays. A build with sanitizers
        # reports this before the emulated device does; the program itself must not cause any report.
        self.assertNotRegex(result.err, r"(?m)^(?!.*\.cuh?:).*runtime error:|AddressSanitizer|LeakSanitizer|terminate called")
        if result.code == 1:
            self.assertRegex(result.err, r"(?m)(^|: )error: .")

    def test_a_plan(self):
        self.tamper()

    def test_a_plan_with_constants_and_steps(self):
        self.tamper("--strategy", "fusion=on,graphs=off,copies=first,launches=serial,parameters=constant")

    def test_a_plan_with_products_of_a_library(self):
        self.tamper("--strategy", "precision=bf16,matmul=cublaslt,attention=cublas")


if __name__ == "__main__":
    unittest.main()
