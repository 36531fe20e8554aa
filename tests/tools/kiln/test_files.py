"""Files that are not what they should be, and names that are not text: an error of the program's own, never a crash."""

import os
import shutil
import unittest

from kilntest import CONFIG, SHAKESPEARE, KilnTest, write_model

CONTENTS = {"empty": b"", "zeros": bytes(20), "every byte": bytes(range(256)), "nested": b"[" * 200000}
JSON = {"empty": "1:1: error: not valid JSON", "zeros": "1:2: error: not valid JSON", "every byte": "error: not valid JSON",
        "nested": "1:65: error: expected at most 64 nested JSON values"}
SAFETENSORS = {"empty": " error: expected a safetensors file of at least 8 bytes, got 0", "zeros": " error: header: expected a JSON object",
               "every byte": " error: expected a header of at most", "nested": " error: expected a header of at most"}
MERGES = {kind: "1:1: error: merge: expected two parts separated by one space" for kind in ("zeros", "every byte", "nested")}
TOML = {"empty": "1:1: error: missing key", "zeros": "1:1: error: not valid TOML", "every byte": "1:1: error: not valid TOML",
        "nested": "1:3: error: not valid TOML"}
IR = {kind: "1:1: error: expected 'module', got " for kind in CONTENTS}
TEXT = "".join(f"{key} = {value}\n" for key, value in CONFIG.items() if key != "model_type")


class WrongFiles(KilnTest):
    def each_content(self, file, messages, *command):
        """The command says so of every content, and of a directory, in the place of the file."""
        for kind, message in messages.items():
            with self.subTest(file=file, kind=kind):
                self.write(file, CONTENTS[kind])
                self.assert_fails(f"{file}:{message}" if message[0] == " " else f"{file}:", *command)
                self.assert_fails(message, *command)
        os.remove(self.path(file))
        os.mkdir(self.path(file))
        self.assert_fails(": error: cannot read: ", *command)

    def model(self, *without):
        folder = shutil.copytree(SHAKESPEARE, self.path("model"), dirs_exist_ok=True)
        for name in without:
            os.remove(os.path.join(folder, name))
        return folder

    def test_every_file_of_a_model(self):
        for name, messages, others in (("config.json", JSON, []), ("model.safetensors", SAFETENSORS, []), ("vocab.json", JSON, []),
                                       ("merges.txt", MERGES, []), ("tokenizer.json", JSON, ["vocab.json", "merges.txt"]),
                                       ("model.safetensors.index.json", JSON, ["model.safetensors"])):
            model = self.model(*others)
            self.each_content("model/" + name, messages, "run", model, "--prompt", "a", "--max-new-tokens", 1)
            shutil.rmtree(model)

    def test_configurations_and_modules(self):
        self.each_content("m.toml", TOML, "compile", self.path("m.toml"), "-o", self.path("plan"))
        self.each_content("m.kiln", IR, "compile", self.path("m.kiln"), "-o", self.path("plan"))

    def test_plans(self):
        model = self.write("m.toml", TEXT)
        self.kiln("compile", model, "--stage", "cuda", "--quiet", "-o", self.path("plan"))
        messages = {**TOML, "empty": "1:1: error: plan: missing key"}
        self.each_content("plan/plan.toml", messages, "dump", self.path("plan"))

    def test_texts(self):
        for message, *command in (("error: cannot read: is a directory", "run", SHAKESPEARE, "--prompt-file", self.folder),
                                  ("none: error: cannot read: No such file", "run", SHAKESPEARE, "--prompt-file", self.path("none")),
                                  ("error: cannot read: is a directory", "eval", SHAKESPEARE, "--text", self.folder),
                                  ("none: error: cannot read: No such file", "eval", SHAKESPEARE, "--text", self.path("none")),
                                  ("error: expected a text of at least 2 tokens, got 0", "eval", SHAKESPEARE, "--text", "/dev/null")):
            with self.subTest(command=command):
                self.assert_fails(message, *command)

    def test_numbers_of_eval(self):
        for option, value, message in (("--window", 1025, "--window: expected 1 to the context of 1024 tokens, got 1025"),
                                       ("--window", 2**62, "--window: expected 1 to the context"),
                                       ("--stride", 1025, "--stride: expected 1 to the window of 1024 tokens, got 1025")):
            self.assert_fails("error: " + message, "eval", SHAKESPEARE, "--text", "-", option, value, stdin=b"two tokens")


class Names(KilnTest):
    """A path is any bytes. Comments and strings of what is written must not end where it has a line's end or a quote."""

    def test_configurations(self):
        for name in (b"n\xff", 'ä"b'.encode(), b"a\nint x;", b"a\\", b"%s", b"*", b"\x7f\x01", b"x" * 200):
            with self.subTest(name=name):
                model = os.path.join(self.folder.encode(), name + b".toml")
                with open(model, "wb") as file:
                    file.write(TEXT.encode())
                plan = os.path.join(self.folder.encode(), b"plan " + name)
                self.kiln("compile", model, "--stage", "cuda", "--quiet", "-o", plan)
                self.kiln("run", plan, "--device", "cpu", "--random-weights", 1, "--tokens", 1, "--max-new-tokens", 1)
                self.kiln("dump", plan, "--what", "cuda", "-o", os.path.join(self.folder.encode(), b"dump"))
                for kernel in os.listdir(os.path.join(plan, b"kernels")):
                    with open(os.path.join(plan, b"kernels", kernel), encoding="utf-8") as file:
                        lines = file.read().splitlines()
                    heading = r"// \w+   sm_90a   \d+ steps?" + ("" if kernel.startswith(b"sample") else r"   from .*\.toml:\d+")
                    self.assertRegex(lines[0], rf"\A{heading}\Z")
                    self.assertTrue(lines[1].startswith(("//", "#include")), lines[1])

    def test_models(self):
        model = os.path.join(self.folder.encode(), b"m\xff\nodel")
        write_model(os.fsdecode(model))
        command = ["run", model, "--tokens", 1, "--max-new-tokens", 1, "--json", "--quiet"]
        (result,) = self.kiln(*command).objects()
        self.assertEqual(len(result["tokens"]), 1)
        os.remove(os.path.join(model, b"model.safetensors"))
        self.assert_fails("error: expected model.safetensors", *command)

    def test_prompts(self):
        (result,) = self.run_json(SHAKESPEARE, "--prompt", b"\xff", "--max-new-tokens", 1)
        self.assertEqual(result["prompt_tokens"], [171, 123, 121])
        self.assert_fails("error: --tokens: expected token ids like 1,2,3, got '", "run", SHAKESPEARE, "--tokens", b"1,\xff", code=2)
        self.assert_fails("error: --tokens: expected token ids like 1,2,3, got '", "run", SHAKESPEARE, "--tokens", "-", stdin=b"1\0,2")


if __name__ == "__main__":
    unittest.main()
