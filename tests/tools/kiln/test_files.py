"""Files of a wrong kind, and names that are not text: the program reports an error and never crashes."""

import os
import shutil
import subprocess
import unittest

from kilntest import CONFIG, KILN, SHAKESPEARE, KilnTest, run_kiln, write_model

CONTENTS = {"empty": b"", "zeros": bytes(20), "every byte": bytes(range(256)), "nested": b"[" * 200000}
JSON = {"empty": "1:1: error: not valid JSON", "zeros": "1:2: error: not valid JSON", "every byte": "error: not valid JSON",
        "nested": "1:65: error: expected at most 64 nested JSON values"}
SAFETENSORS = {"empty": " error: expected a safetensors file of at least 8 bytes, got 0", "zeros": " error: header: expected a JSON object",
               "every byte": " error: expected a header of at most", "nested": " error: expected a header of at most"}
MERGES = {"empty": " error: expected merges that make each of the vocabulary's 752 tokens of several bytes, got none for 752 of them",
          **{kind: "1:1: error: merge: expected two parts separated by one space" for kind in ("zeros", "every byte", "nested")}}
TOML = {"empty": "1:1: error: missing key", "zeros": "1:1: error: not valid TOML", "every byte": "1:1: error: not valid TOML",
        "nested": "1:64: error: expected at most 64 nested TOML tables and arrays"}
IR = {kind: "1:1: error: expected 'module', got " for kind in CONTENTS}
TEXT = "".join(f"{key} = {value}\n" for key, value in CONFIG.items() if key != "model_type")


class WrongFiles(KilnTest):
    def each_content(self, file, messages, *command):
        """The command reports the messages for each content of the file, and for a directory in its place."""
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

    def test_cut_merges(self):
        """Cutting at a line's end is tried, too: the file is then well-formed, but leaves tokens without a merge."""
        model = self.model()
        with open(os.path.join(model, "merges.txt"), "rb") as file:
            merges = file.read()
        for end in (len(merges) // 2, merges.rindex(b"\n", 0, len(merges) - 1) + 1, len(merges) - 2):
            self.write("model/merges.txt", merges[:end])
            self.assert_fails("model/merges.txt:", "tokenize", model, "--text", "a")
        self.write("model/merges.txt", merges[: merges.rindex(b"\n", 0, len(merges) - 1)])
        self.assert_fails("of the vocabulary's 752 tokens of several bytes, got none for 1 of them", "tokenize", model, "--text", "a")

    def test_what_is_no_file(self):
        """A pipe would keep its reader waiting, and a device may never end."""
        for make, kind in ((os.mkfifo, "a pipe"), (lambda path: os.symlink("/dev/zero", path), "a device")):
            message = "error: cannot read: expected a regular file, got " + kind
            for name in ("config.json", "model.safetensors", "vocab.json", "merges.txt"):
                with self.subTest(name=name, kind=kind):
                    model = self.model(name)
                    make(os.path.join(model, name))
                    self.refuses(name, message, "run", model, "--prompt", "a", "--max-new-tokens", 1)
                    shutil.rmtree(model)
            for name, *command in (("m.toml", "compile", self.path("m.toml"), "--stage", "graph"),
                                   ("m.kiln", "compile", self.path("m.kiln"), "--stage", "plan"),
                                   ("plan/plan.toml", "dump", self.path("plan"))):
                os.makedirs(self.path("plan"), exist_ok=True)
                make(self.path(name))
                self.refuses(name, message, *command)
                os.remove(self.path(name))

    def refuses(self, name, message, *command):
        result = run_kiln(*command)
        self.assertEqual(result.code, 1, result.err)
        self.assertIn(f"{name}: {message}", result.err)

    def test_prompts_may_be_pipes(self):
        """For example a shell's <(…), and /dev/stdin."""
        read, write = os.pipe()
        os.write(write, b"a  b")
        os.close(write)
        expected = self.kiln("tokenize", SHAKESPEARE, "--text", "a  b").out
        self.assertEqual(self.kiln("tokenize", SHAKESPEARE, "--file", f"/dev/fd/{read}", pass_fds=(read,)).out, expected)
        os.close(read)
        self.assertEqual(self.kiln("tokenize", SHAKESPEARE, "--file", "/dev/stdin", stdin=b"a  b").out, expected)
        with open("/dev/zero", "rb") as zeros:
            result = subprocess.run([KILN, "tokenize", SHAKESPEARE, "--file", "-"], stdin=zeros, capture_output=True)
        self.assertEqual((result.returncode, result.stderr),
                         (1, b"standard input: error: cannot read: expected at most 268435456 bytes, got more\n"))

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
            self.assert_fails("error: " + message, "eval", SHAKESPEARE, "--text", "-", option, value, stdin=b"two tokens", code=2)


class Names(KilnTest):
    """A path may contain any bytes. A newline or quote in it must not end comments or strings in written files."""

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
