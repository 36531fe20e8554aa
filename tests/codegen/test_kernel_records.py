"""The plan records what each kernel computes, and which lines of its source implement which op. Generated code names
the op in a comment on these lines, so that the two can be compared."""

import os
import re
import tomllib
import unittest

from kilntest import SHAKESPEARE, SOURCE, KilnTest
from test_compiles import STRATEGIES


class Records(KilnTest):
    def kernels(self, *arguments):
        """The records of a plan's kernels, and the lines of their sources."""
        plan = self.path("plan")
        self.kiln("compile", *arguments, "--stage", "cuda", "--quiet", "-o", plan)
        with open(os.path.join(plan, "plan.toml"), "rb") as file:
            records = tomllib.load(file)["kernels"]
        for record in records:
            with open(os.path.join(plan, "kernels", record["name"] + ".cu"), encoding="utf-8") as file:
                yield record, file.read().splitlines()

    def check(self, record, source):
        ops = record["ops"]
        width = max(len(op["value"]) for op in ops)
        heading = [f"//   %{op['value']:{width}} = {op['op']}" for op in ops]
        self.assertEqual(source[2 : 2 + len(ops)], heading)
        self.assertTrue(source[2 + len(ops)].startswith("#include"), source[2 + len(ops)])
        commented = {op["value"]: [] for op in ops}
        for number, line in enumerate(source[2 + len(ops) :], 3 + len(ops)):
            comment = re.search(r"// (%(\w+) = .*)", line)
            if comment:
                op = next(op for op in ops if op["value"] == comment[2])
                self.assertEqual(comment[1], f"%{op['value']} = {op['op']}")
                commented[op["value"]].append(number)
        first = next(i for i, line in enumerate(source, 1) if re.match(r"  \w+<Config(, \w+)?>\(", line))
        call = list(range(first, len(source)))
        self.assertEqual(source[-1], "}")
        for i, op in enumerate(ops):
            with self.subTest(op=op["value"]):
                self.assertEqual(op["lines"][0], 3 + i)
                own = op["lines"][1:]
                if commented[op["value"]]:
                    self.assertLessEqual(set(commented[op["value"]]), set(own))
                    self.assertFalse(set(own) & set(call))
                else:
                    self.assertEqual(own, call, "the template computes it")

    def check_all(self, *arguments):
        for record, source in self.kernels(*arguments):
            with self.subTest(arguments=arguments, kernel=record["name"]):
                if record["family"] == "sample":
                    self.assertNotIn("ops", record)
                    continue
                parts = [record["title"], record["dtype"], record["extents"]]
                parts += [letter + str(record[key]) for letter, key in (("r", "rows"), ("v", "number")) if key in record]
                self.assertEqual(record["name"], "__".join(filter(None, parts)))
                self.check(record, source)

    def test_every_kernel(self):
        self.check_all(SHAKESPEARE)
        for strategy in ("precision=bf16", "precision=bf16,matmul=tensor", *STRATEGIES):
            self.check_all(os.path.join(SOURCE, "graphs", "gpt2-124m.toml"), "--strategy", strategy)

    def test_one_store_of_several_values(self):
        """It is a line of every op that stores a value by it."""
        found = set()
        for record, source in self.kernels(SHAKESPEARE, "--strategy", "precision=bf16"):
            for number, line in enumerate(source, 1):
                if line.strip().startswith("store(to + "):
                    ops = [op for op in record["ops"] if number in op["lines"]]
                    found.add(tuple(f"{op['value']} = {op['op'].split()[0]}" for op in ops))
        into_cache = ("q = split_heads", "kc = cache_write", "vc = cache_write")
        self.assertEqual(found, {into_cache, ("q = split_heads", "k = split_heads", "v = split_heads")})


if __name__ == "__main__":
    unittest.main()
