"""Bad command lines: exit code 2, the option named, nothing run. Bad prompts: exit code 1."""

import unittest

from kilntest import CONFIG, KilnTest, write_model

BAD_FLAGS = (
    ("--temperature", "0", "expected a number above 0, got '0'"),
    ("--temperature", "-1", "expected a number above 0, got '-1'"),
    ("--temperature", "nan", "expected a number above 0, got 'nan'"),
    ("--temperature", "inf", "expected a number above 0, got 'inf'"),
    ("--temperature", "1x", "expected a number above 0, got '1x'"),
    ("--top-k", "-1", "expected an integer from 0, got '-1'"),
    ("--top-k", "1.5", "expected an integer from 0, got '1.5'"),
    ("--top-p", "0", "expected a number above 0 and at most 1, got '0'"),
    ("--top-p", "1.01", "expected a number above 0 and at most 1, got '1.01'"),
    ("--top-p", "nan", "expected a number above 0 and at most 1, got 'nan'"),
    ("--seed", "-1", "expected an integer from 0, got '-1'"),
    ("--max-new-tokens", "-1", "expected an integer from 0, got '-1'"),
    ("--max-new-tokens", "99999999999999999999", "expected an integer from 0, got '99999999999999999999'"),
    ("--device", "gpu", "expected auto, cpu, emulate or cuda:N, got 'gpu'"),
    ("--dtype", "f8", "expected f32, f16, bf16, tf32, fp32 or fp16, got 'f8'"),
    ("--overflow", "wrap", "expected error, stop or slide, got 'wrap'"),
)

BAD_TOKENS = ("-1", "1,a", "1,,2", ",", "1,", "1 2,,3", "1.5", "0x1", "99999999999999999999", "2147483648")


class UsageTest(KilnTest):
    def setUp(self):
        super().setUp()
        self.model = write_model(self.path("model"))

    def test_flags_of_run(self):
        for flag, value, message in BAD_FLAGS:
            with self.subTest(flag=flag, value=value):
                self.assert_fails(f"error: {flag}: {message}\n", "run", self.model, "--tokens", 1, f"{flag}={value}", code=2)

    def test_flags_of_eval(self):
        for flag in ("--window", "--stride"):
            self.assert_fails(f"error: {flag}: expected an integer from 0, got '-1'", "eval", self.model, "--text", "-",
                              f"{flag}=-1", code=2)

    def test_empty_values(self):
        for text in ("", ",", "sm_80,", "sm_80,,sm_86"):
            self.assert_fails("error: --target: expected a value, got ''", "compile", self.model, f"--target={text}", code=2)
        self.assert_fails("error: -o: expected a value, got ''", "compile", self.model, "-o", "", code=2)
        self.assert_fails("error: --batch: expected an integer from 1, got ''", "bench", self.model, "--batch=1,,2", code=2)

    def test_what_does_not_go_together(self):
        self.assert_fails("error: --greedy excludes --", "run", self.model, "--tokens", 1, "--greedy", "--top-k", 5, code=2)
        self.assert_fails("error: --logits requires --json", "run", self.model, "--tokens", 1, "--logits", code=2)

    def test_unknown_words(self):
        self.assert_fails("error: unknown command 'rum'", "rum", self.model, code=2)
        self.assert_fails("expected: --frobnicate", "run", self.model, "--tokens", 1, "--frobnicate", code=2)
        self.assert_fails("error: a subcommand is required", code=2)

    def test_tokens_that_are_none(self):
        for text in BAD_TOKENS:
            with self.subTest(text=text):
                self.assert_fails("error: --tokens: expected token ids like 1,2,3, got '", "run", self.model, f"--tokens={text}")

    def test_prompts_that_the_model_cannot_take(self):
        vocabulary, context = CONFIG["vocab_size"], CONFIG["n_positions"]
        run = ["run", self.model, "--max-new-tokens", 1]
        self.assert_fails("error: prompt 1: expected at least one token, got none", *run, "--tokens=")
        self.assert_fails(f"error: prompt 2: expected token ids in 0..{vocabulary - 1}, got {vocabulary}", *run, "--tokens", 1,
                          "--tokens", f"0,{vocabulary}")
        self.assert_fails(f"error: prompt 1: expected at most the context of {context} tokens, got {context + 1}", *run,
                          "--tokens", ",".join(["1"] * (context + 1)))


if __name__ == "__main__":
    unittest.main()
