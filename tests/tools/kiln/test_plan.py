"""Bad plans (of another version, corrupted, incomplete) are refused before anything runs."""

import os
import random
import re
import shutil
import tempfile
import unittest

from kilntest import ONE_KERNEL, SHAKESPEARE, TINY_MODEL, KilnTest, run_kiln, snapshot, write_model


class BadPlans(KilnTest):
    @classmethod
    def setUpClass(cls):
        cls.original = tempfile.mkdtemp(prefix="kiln-test-")
        cls.addClassCleanup(shutil.rmtree, cls.original)
        write_model(os.path.join(cls.original, "model"))
        result = run_kiln("compile", os.path.join(cls.original, "model"), "--stage", "cuda", "--quiet", "-o",
                          os.path.join(cls.original, "plan"))
        if result.code != 0:
            raise AssertionError(result.err)

    def setUp(self):
        super().setUp()
        for name in ("model", "plan"):
            shutil.copytree(os.path.join(self.original, name), self.path(name))
        with open(self.path("plan/plan.toml")) as file:
            self.text = file.read()
        self.command = ["run", self.path("plan"), "--weights", self.path("model"), "--tokens", "1,2", "--max-new-tokens", 2,
                        "--greedy", "--quiet", "--device", "cpu"]

    def assert_refused(self, message, text):
        self.assertNotEqual(text, self.text, "nothing was changed")
        self.write("plan/plan.toml", text)
        self.assert_fails("plan/plan.toml:" + message, *self.command)
        self.assert_fails("plan/plan.toml:" + message, "dump", self.path("plan"))

    def line_of(self, start):
        return next(number for number, line in enumerate(self.text.splitlines(), 1) if line.startswith(start))

    def test_a_plan_runs(self):
        (model,) = self.run_json(self.path("model"), "--tokens", "1,2", "--greedy", "--logits", "--max-new-tokens", 3)
        (plan,) = self.run_json(self.path("plan"), "--weights", self.path("model"), "--tokens", "1,2", "--greedy", "--logits",
                                "--max-new-tokens", 3)
        self.assertEqual((plan["tokens"], plan["logits"]), (model["tokens"], model["logits"]))

    def test_a_plan_with_ptx(self):
        plan = self.path("ptx-plan")
        self.kiln("compile", self.path("model"), "--target", "sm_80,compute_80", "--quiet", "-o", plan)
        with open(os.path.join(plan, "plan.toml")) as file:
            text = file.read()
        self.assertIn('\ncubins = ["sm_80"]\nptx = ["compute_80"]\n', text)
        self.assertNotIn("resources.compute_80", text)
        kernels = sorted(name.removesuffix(".cu") for name in os.listdir(os.path.join(plan, "kernels")))
        self.assertEqual(sorted(os.listdir(os.path.join(plan, "ptx/compute_80"))), [name + ".ptx" for name in kernels])
        for name in kernels:
            with open(os.path.join(plan, "ptx/compute_80", name + ".ptx")) as file:
                self.assertRegex(file.read(), rf"(?s)\.target sm_80\b.*\.entry {name}\(")
        options = ("--tokens", "1,2", "--greedy", "--max-new-tokens", 3)
        (model,) = self.run_json(self.path("model"), *options)
        (found,) = self.run_json(plan, *options, device="emulate")
        self.assertEqual(found["tokens"], model["tokens"])
        # Compiled again without PTX, the plan has none.
        self.kiln("compile", self.path("model"), "--target", "sm_80", "--quiet", "-o", plan)
        self.assertFalse(os.path.exists(os.path.join(plan, "ptx")))

    def test_more_sequences_than_the_plan_was_made_for(self):
        result = run_kiln("compile", self.path("model"), "--stage", "cuda", "--quiet", "--max-batch", 1, "-o", self.path("small"))
        self.assertEqual(result.code, 0, result.err)
        self.assert_fails("error: the plan runs B from 1 to 1, got 2; compile with a larger --max-batch", "run", self.path("small"),
                          "--weights", self.path("model"), "--tokens", "1,2", "--tokens", "3", "--greedy", "--max-new-tokens", 2,
                          "--device", "emulate")

    def test_no_driver(self):
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("there is a driver")
        self.assert_fails("error: no NVIDIA driver on this machine; --device cpu and emulate need none", *self.command[:-1], "cuda:0")

    def test_another_version(self):
        line = self.line_of("format")
        for version in ("0", "1", "999"):
            self.assert_refused(f"{line}:10: error: format: expected a plan of version", re.sub(r"format = \d+", f"format = {version}", self.text))
        for value in ('"1"', "1.0", "-1", "[1]"):
            self.assert_refused(f"{line}:10: error: format: expected an integer", re.sub(r"format = \d+", f"format = {value}", self.text))
        # The rest of a plan of another version may be anything.
        self.assert_refused(f"1:10: error: format: expected a plan of version", "format = 99\nother = true\n")

    def test_missing_keys(self):
        for key in ("format", "compiler", "nvrtc", "source_hash", "target", "cubins", "dtype", "context", "name", "arena", "results"):
            self.assert_refused("", re.sub(rf"(?m)^{key} = .*\n", "", self.text, count=1))

    def test_unknown_keys(self):
        self.assert_refused("1:1: error: plan: unknown key 'other'", "other = 1\n" + self.text)
        line = self.line_of("context")
        self.assert_refused(f"{line}:1: error: model: unknown key 'other'", self.text.replace("context =", "other = 1\ncontext =", 1))

    def test_values(self):
        for old, new in ((r"B = \[1, ", "B = [0, "), (r"B = \[1, 64\]", "B = [64, 1]"), (r"B = \[1, 64\]", "B = 64"),
                         (r'dtype = "f32"', 'dtype = "f64"'), (r'dtype = "f32"', "dtype = 32"), (r"context = \d+", "context = 0"),
                         (r"vocabulary = \d+", 'vocabulary = "x"'), (r"threads = \d+", "threads = 2048"), (r"threads = \d+", "threads = 0"),
                         (r'arena = "[^"]*"', 'arena = "B*"'), (r'arena = "[^"]*"', 'arena = "X"'), (r'arena = "[^"]*"', 'arena = "1"'),
                         (r'offset = "[^"]*"', 'offset = "0-1"'), (r'(?m)^results = .*', 'results = ["none"]'),
                         (r'kernel = "[^"]*"', 'kernel = "none"'), (r'kernel = "[^"]*"', 'kernel = "../x"'),
                         (r'arguments = \["[^"]*"', 'arguments = ["%none"'), (r'(\[\[kernels\]\]\nname = )"[^"]*"', r'\1"../x"'),
                         (r'(?s)(\[\[kernels\]\]\n.*?)(?=\[\[kernels)', r"\1\1")):
            with self.subTest(old=old, new=new):
                self.assert_refused("", re.sub(old, new, self.text, count=1))

    def test_documents(self):
        self.assert_refused("1:1: error: plan: missing key 'format'", "")
        self.assert_refused("1:", b"\xff\xfe".decode("latin-1") + self.text)
        self.assert_refused("", self.text[: len(self.text) // 2])

    def test_missing_files(self):
        kernel = next(iter(sorted(os.listdir(self.path("plan/kernels")))))
        os.remove(self.path("plan/kernels", kernel))
        self.assert_fails(f"error: name: the file plan/kernels/{kernel} of kernel '{kernel[:-3]}' is missing", *self.command)
        shutil.rmtree(self.path("plan/kernels"))
        self.assert_fails("is missing", *self.command)
        os.remove(self.path("plan/plan.toml"))
        self.assert_fails("plan/config.json: error: cannot read: No such file", *self.command)
        self.assert_fails("plan/plan.toml: error: cannot read: No such file", "dump", self.path("plan"))

    def test_plans_of_other_things(self):
        """A valid plan, but not of a language model."""
        command = [*self.command[:-1], "emulate"]
        entries = self.text[self.text.index("[entries]") : self.text.index("# Packed weights")]
        self.write("plan/plan.toml", self.text.replace(entries, ""))
        self.assert_fails("error: the plan is of no language model: it has no entry 'prefill'", *command)
        sample = entries[entries.index("sample = ") :]
        self.write("plan/plan.toml", self.text.replace(entries, re.sub("decode = .*\n", "", entries.replace(sample, ""))))
        self.assert_fails("error: the plan is of no language model: it has no entry 'decode'", *command)

    def test_ir(self):
        with open(self.path("plan/ir/fused.kiln")) as file:
            text = file.read()
        for changed in ("", text[: len(text) // 2], text.replace("f32", "f33", 1), text.replace("%", "$", 1), text + "x",
                        text.replace("return", "retrun", 1)):
            self.write("plan/ir/fused.kiln", changed)
            self.assert_fails("plan/ir/fused.kiln:", *self.command)
        os.remove(self.path("plan/ir/fused.kiln"))
        self.assert_fails("plan/ir/fused.kiln: error: cannot read: No such file", *self.command)

    def test_without_ir(self):
        """Only the reference executor needs the IR."""
        shutil.rmtree(self.path("plan/ir"))
        self.kiln("bench", self.path("plan"), "--device", "emulate", "--length", 8)
        self.kiln(*self.command[:-1], "emulate")
        self.assert_fails("plan/ir/fused.kiln: error: cannot read: No such file", *self.command[:-1], "emulate", "--check", "reference")

    def test_logits_of_another_vocabulary(self):
        """The reference executor must not read past the end of a row of logits."""
        with open(self.path("plan/ir/fused.kiln")) as file:
            text = file.read()
        for name, change in (("prefill", text.replace("vocab = 29", "vocab = 1024", 1)),
                             ("decode", "func @decode".join((part.replace("size = 29", "size = 8").replace(",1,29]", ",1,8]") if i else part)
                                                            for i, part in enumerate(text.split("func @decode"))))):
            self.write("plan/ir/fused.kiln", change)
            wanted, got = (1024, 29) if name == "prefill" else (29, 8)
            self.assert_fails(f"error: @{name}: expected {wanted} logits, got {got}", *self.command, "--json")

    def test_scores_of_another_vocabulary(self):
        plan = self.path("embedded.plan")
        self.kiln("compile", SHAKESPEARE, "--stage", "cuda", "--quiet", "-o", plan)
        with open(os.path.join(plan, "ir/fused.kiln")) as file:
            before, score = file.read().split("func @score")
        score, after = score.split("func @decode")
        score = score.replace("size = 1009", "size = 8").replace("B,T,1009]", "B,T,8]")
        self.write("embedded.plan/ir/fused.kiln", before + "func @score" + score + "func @decode" + after)
        self.assert_fails("error: @score: expected 1009 logits, got 8", "eval", plan, "--weights", SHAKESPEARE, "--device", "cpu",
                          "--text", "-", stdin=b"Speak, speak.")

    def test_bench_counts_scores(self):
        counts = lambda *what: self.kiln("bench", self.path("plan"), "--device", "emulate", "--what", *what, "--batch", 2, "--length", 8,
                                         "-o", "csv").out.decode().splitlines()[1:]
        (whole,) = counts("score")
        kernels = [line.split(",") for line in counts("kernels", "--of", "score")]
        what, launches, moved = whole.split(",")[:3]
        self.assertEqual(what, "score B=2 T=8")
        self.assertEqual(int(launches), sum(int(kernel[1]) for kernel in kernels))
        self.assertEqual(int(moved), sum(int(kernel[2]) for kernel in kernels))
        self.assertTrue(any("score" in kernel[0] for kernel in kernels), kernels)

    def test_weights_of_another_model(self):
        other = write_model(self.path("other"), {"model_type": "gpt2", "vocab_size": 29, "n_positions": 24, "n_embd": 16,
                                                 "n_layer": 2, "n_head": 2})
        self.assert_fails("expected shape [29,32], got [29,16]", "run", self.path("plan"), "--weights", other, "--tokens", 1)

    def test_random_damage(self):
        """Whatever the damage, the program ends with a result or an error message."""
        generator = random.Random(1)
        names = ("plan/plan.toml", "plan/ir/fused.kiln")
        originals = {}
        for name in names:
            with open(self.path(name), "rb") as file:
                originals[name] = file.read()
        for _ in range(60):
            name = generator.choice(names)
            self.write(name, damage(originals[name], generator))
            result = run_kiln(*self.command)
            self.assertIn(result.code, (0, 1), result.err)
            self.assertEqual("error: " in result.err, result.code == 1)
            self.write(name, originals[name])


def damage(text, generator):
    """The text with one byte, line, number or name changed."""
    kind = generator.randrange(4)
    lines = text.split(b"\n")
    if kind == 0:
        at = generator.randrange(len(text))
        return text[:at] + bytes([generator.randrange(256)]) + text[at + 1 :]
    if kind == 1:
        at = generator.randrange(len(lines))
        return b"\n".join(lines[:at] + generator.choice(([], [lines[at]] * 2)) + lines[at + 1 :])
    places = list(re.finditer(rb"\d+" if kind == 2 else rb"[A-Za-z_]\w*", text))
    place, other = generator.choice(places), generator.choice(places).group()
    new = generator.choice((b"0", b"-1", b"4294967296", b"9223372036854775807", b"1.5")) if kind == 2 else other
    return text[: place.start()] + new + text[place.end() :]


class Reproducible(KilnTest):
    def test_every_folder_gives_the_same_plan(self):
        """The names of the folder and the plan, and the path of the model, do not matter."""
        for name, text, options in (("m.kiln", ONE_KERNEL.format("tanh"), ["--no-cache"]), ("m.toml", TINY_MODEL, ["--stage", "cuda"])):
            plans = []
            for folder, model, output in (("a", name, "m.plan"), ("another/folder", self.path("another/folder", name), "other"),
                                          (".", "a/" + name, "a/b/c")):
                self.write(os.path.join(folder, name), text)
                self.kiln("compile", model, "--quiet", "-o", output, *options, cwd=self.path(folder))
                plans.append(snapshot(self.path(folder, output)))
            self.assertIn("plan.toml", plans[0])
            for plan in plans[1:]:
                self.assertEqual(plan.keys(), plans[0].keys())
                self.assertEqual([name for name in plan if plan[name] != plans[0][name]], [])


if __name__ == "__main__":
    unittest.main()
