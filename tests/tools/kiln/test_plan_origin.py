"""A plan remembers where the weights and the vocabulary of its model are, and finds out if they have changed."""

import os
import re
import shutil
import unittest

import modelfiles
from kilntest import CONFIG, SHAKESPEARE, TINY_MODEL, KilnTest, make_weights, run_kiln, snapshot, write_model

CHANGED = r"of digest [0-9a-f]{12}, got others, of digest [0-9a-f]{12}; to use these, give --weights "


class Origins(KilnTest):
    def compile(self, model, plan, **options):
        return self.kiln("compile", model, "--stage", "cuda", "--quiet", "-o", plan, **options)

    def make(self, model="model", plan="plan", shards=1):
        """A model with a vocabulary, and a plan of it, by paths relative to the test's folder."""
        config = {**CONFIG, "vocab_size": 1009}
        write_model(self.path(model), config, shards=shards)
        for name in ("vocab.json", "merges.txt"):
            shutil.copy(os.path.join(SHAKESPEARE, name), self.path(model))
        self.compile(model, plan, cwd=self.folder)

    def arguments(self, plan, *options, prompt=("--prompt", "ROMEO:")):
        return ("run", self.path(plan), *options, *prompt, "--max-new-tokens", 4, "--greedy", "--quiet", "--device", "cpu")

    def text(self, plan, *options, **prompt):
        return self.kiln(*self.arguments(plan, *options, **prompt)).out

    def origin(self, plan):
        with open(self.path(plan, "plan.toml")) as file:
            return dict(re.findall(r'(?m)^(\w+) = "(.*)"$', file.read().partition("[origin]\n")[2].partition("\n\n")[0]))

    def assert_refused(self, pattern, plan="plan"):
        """Every command that needs weights refuses the plan."""
        self.assertRegex(self.messages(*self.arguments(plan)), pattern)
        self.assertRegex(self.messages("eval", self.path(plan), "--text", "-", "--device", "cpu"), pattern)

    def messages(self, *arguments):
        result = run_kiln(*arguments, stdin=b"ROMEO: Juliet")
        self.assertEqual((result.code, result.out), (1, b""), result.err)
        return result.err.replace(self.folder + "/", "")

    def swap(self, name, contents=None):
        """Replaces or removes a file, and gives back what puts it back."""
        with open(self.path(name), "rb") as file:
            before = file.read()
        os.remove(self.path(name)) if contents is None else self.write(name, contents(before))
        return lambda: self.write(name, before)

    def test_nothing_else_is_needed(self):
        for shards in (1, 2):
            self.make(shards=shards)
            self.assertEqual(self.origin("plan").keys(), {"path", "weights", "vocabulary"})
            expected = self.text("plan", "--weights", self.path("model"))
            self.assertEqual(self.text("plan"), expected)
            self.assertEqual(self.text("model"), expected)
            self.kiln("eval", self.path("plan"), "--text", "-", "--device", "cpu", "--quiet", stdin=b"ROMEO: Juliet")
            shutil.rmtree(self.path("model"))

    def test_models_in_one_file(self):
        tokens, merges = modelfiles.read_vocabulary(SHAKESPEARE)
        end = tokens.index("<|endoftext|>")
        config = {**CONFIG, "vocab_size": len(tokens)}
        weights = make_weights(config)
        self.write("model.gguf", modelfiles.gguf(modelfiles.gguf_metadata(config, (tokens, merges, end)), modelfiles.gguf_tensors(weights)))
        self.write("llmc/model.bin", modelfiles.llmc(config, weights))
        self.write("llmc/gpt2_tokenizer.bin", modelfiles.llmc_tokenizer(
            [b"<|endoftext|>" if i == end else modelfiles.token_bytes(token) for i, token in enumerate(tokens)], end))
        for model in ("model.gguf", "llmc/model.bin"):
            self.compile(model, "plan", cwd=self.folder)
            self.assertEqual(self.origin("plan")["path"], "../" + model)
            self.assertEqual(self.text("plan"), self.text(model))
        restore = self.swap("llmc/gpt2_tokenizer.bin", lambda old: old[:-1] + b"x")
        self.assert_refused("llmc/model.bin: error: vocabulary: expected those that plan was compiled for, " + CHANGED + "llmc/model.bin\n")
        restore()
        os.rename(self.path("llmc/model.bin"), self.path("llmc/other.bin"))
        self.assert_refused("llmc/model.bin: error: weights: expected those that plan was compiled for, got none; give --weights PATH\n")

    def test_other_files(self):
        for shards in (1, 2):
            self.make(shards=shards)
            expected, place = self.text("plan"), re.escape("model: error: ")
            file = "model/model.safetensors" if shards == 1 else "model/model-00002-of-00002.safetensors"
            flip = lambda old: old[:-1] + bytes([old[-1] ^ 1])
            restore = self.swap(file, flip)
            self.assert_refused(place + "weights: expected those that plan was compiled for, " + CHANGED + "model\n")
            self.text("plan", "--weights", self.path("model"))
            restore()
            for name in ("vocab.json", "merges.txt"):
                restore = self.swap("model/" + name, lambda old: old + b"\n")
                self.assert_refused(place + "vocabulary: expected those that plan was compiled for, " + CHANGED + "model\n")
                restore()
            self.write("model/added_tokens.json", "{}")
            self.assert_refused(place + "vocabulary: ")
            os.remove(self.path("model/added_tokens.json"))
            self.assertEqual(self.text("plan"), expected)
            self.swap(file)
            self.assert_refused(place + "weights: expected those that plan was compiled for, " +
                                ("got none" if shards == 1 else "which cannot be read") + "; give --weights PATH\n")
            shutil.rmtree(self.path("model"))
            self.assert_refused(place + "weights: expected those that plan was compiled for, got none; give --weights PATH\n")

    def test_a_missing_vocabulary(self):
        self.make()
        for name in ("vocab.json", "merges.txt"):
            os.remove(self.path("model", name))
        self.assert_refused("model: error: vocabulary: expected those that plan was compiled for, got none; give --weights PATH\n")
        self.text("plan", "--weights", self.path("model"), prompt=("--tokens", "1,2"))

    def test_a_large_file(self):
        """The digest does not cover a large file whole, but any thousandth of it. A compilation does not open it."""
        write_model(self.path("model"))
        size = 9 << 20
        digests = set()
        for start in (None, 0, 4 << 20, 5 << 20, 7654321, size - 10000):
            with open(self.path("model/model.safetensors"), "wb") as file:
                file.truncate(size)
                if start is not None:
                    file.seek(start)
                    file.write(b"x" * 10000)
            self.compile("model", "plan", cwd=self.folder)
            digests.add(self.origin("plan")["weights"])
        self.assertEqual(len(digests), 6)

    def test_other_weights(self):
        """With --weights or --random-weights, it does not matter what has become of the model."""
        self.make()
        write_model(self.path("other"), {**CONFIG, "vocab_size": 1009}, seed=2)
        tokens = ("--tokens", "1,2")
        expected = self.text("plan", prompt=tokens)
        shutil.rmtree(self.path("model"))
        self.assertNotEqual(self.text("plan", "--weights", self.path("other"), prompt=tokens), expected)
        self.text("plan", "--random-weights", 1, prompt=tokens)
        write_model(self.path("other"), {**CONFIG, "vocab_size": 1008})
        self.assertIn("expected shape [1009,32], got [1008,32]", self.messages(*self.arguments("plan", "--weights", self.path("other"))))

    def test_moving(self):
        """A plan and its model can be moved together; a model that was given by an absolute path stays where it is."""
        self.make("a/model", "a/b/plan")
        self.assertEqual(self.origin("a/b/plan")["path"], "../../model")
        expected = self.text("a/b/plan")
        os.rename(self.path("a"), self.path("c"))
        self.assertEqual(self.text("c/b/plan"), expected)
        os.symlink(self.path("c/b/plan"), self.path("link"))
        self.assertEqual(self.text("link"), expected)
        os.rename(self.path("c/b/plan"), self.path("plan"))
        self.assert_refused(r"model: error: weights: expected those that plan was compiled for, got none; give --weights PATH\n")
        self.compile(self.path("c/model"), "c/b/plan", cwd=self.folder)
        self.assertEqual(self.origin("c/b/plan")["path"], self.path("c/model"))
        os.rename(self.path("c/b/plan"), self.path("elsewhere"))
        self.assertEqual(self.text("elsewhere"), expected)

    def test_links(self):
        """Paths with links in them lead from the plan's folder to the model's."""
        self.make("a/b/model", "out")
        expected = self.text("out")
        os.symlink(self.path("a/b"), self.path("there"))
        os.makedirs(self.path("x/y"))
        os.symlink(self.path("x/y"), self.path("here"))
        for model, plan, cwd in (("there/model", "plan", ""), ("a/b/model", "here/plan", ""), ("model", "../../here/plan", "there"),
                                 ("../model", "plan", "there/model"), (".", "../plan", "there/model")):
            with self.subTest(model=model, plan=plan, cwd=cwd):
                self.compile(model, plan, cwd=self.path(cwd))
                self.assertEqual(self.text(os.path.join(cwd, plan)), expected)
        # A link to a model is named itself.
        os.symlink("a/b/model", self.path("latest"))
        self.compile("latest", "plan", cwd=self.folder)
        self.assertEqual(self.origin("plan")["path"], "../latest")

    def test_plans_differ_in_this_alone(self):
        self.make("a/model", "a/plan")
        self.make("b/deeper/model", "b/other")
        plans = [snapshot(self.path(name)) for name in ("a/plan", "b/other")]
        for plan in plans:
            plan["plan.toml"] = re.sub(rb'(?m)^path = ".*"$', b"", plan["plan.toml"])
        self.assertEqual(*plans)

    def test_models_without_weights(self):
        model = self.write("tiny.toml", TINY_MODEL)
        self.compile(model, self.path("plan"))
        self.assertEqual(self.origin("plan"), {})
        self.assert_refused("plan: error: no weights here: give --weights PATH or --random-weights SEED\n")
        self.make()
        os.remove(self.path("model/model.safetensors"))
        self.compile("model", "plan", cwd=self.folder)
        self.assertEqual(self.origin("plan").keys(), {"path", "vocabulary"})
        self.assert_refused("plan: error: no weights here: give --weights PATH or --random-weights SEED\n")

    def test_what_cannot_be_remembered(self):
        self.make()
        self.write("model/model.safetensors.index.json", "{")
        os.remove(self.path("model/model.safetensors"))
        result = self.kiln("compile", "model", "--stage", "cuda", "-o", "plan", cwd=self.folder)
        self.assertIn("model/model.safetensors.index.json:1:2: note: the plan does not remember weights and vocabulary: ", result.err)
        self.assertEqual(self.origin("plan"), {})
        # plan.toml is UTF-8; other bytes of names cannot be in it.
        odd = self.path(os.fsdecode(b"m\xff"))
        write_model(odd)
        self.compile(odd, "plan", cwd=self.folder)
        self.assertEqual(self.origin("plan"), {})
        write_model(self.path('m"\\\x7f\n'))
        self.compile('m"\\\x7f\n', "plan", cwd=self.folder)
        self.text("plan", prompt=("--tokens", "1"))


if __name__ == "__main__":
    unittest.main()
