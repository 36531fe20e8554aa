"""Bad models: each is an error with its position and exit code 1, and nothing is written."""

import json
import unittest

from kilntest import CONFIG, KilnTest, write_model

INT_KEYS = ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head")


class HuggingFaceConfig(KilnTest):
    def setUp(self):
        super().setUp()
        self.model = write_model(self.path("model"))

    def assert_refused(self, message, text=None, **changes):
        """`message` excludes the file's name. A change to None removes the key."""
        if text is None:
            config = {key: value for key, value in {**CONFIG, **changes}.items() if value != "remove"}
            text = json.dumps(config, indent=0)
        self.write("model/config.json", text)
        self.assert_fails("model/config.json:" + message, "run", self.model, "--tokens", 1, "--max-new-tokens", 1)
        self.assert_fails("model/config.json:" + message, "compile", self.model, "-o", self.path("plan"))

    def assert_accepted(self, **changes):
        self.write("model/config.json", json.dumps({**CONFIG, **changes}))
        self.kiln("run", self.model, "--tokens", 1, "--max-new-tokens", 1)

    def test_missing_keys(self):
        for key in ("model_type", *INT_KEYS):
            self.assert_refused(f"1:1: error: missing key '{key}'", **{key: "remove"})

    def test_integers(self):
        for line, key in enumerate(INT_KEYS, start=3):
            column = len(key) + 5
            for value, shown in ((0, "0"), (-1, "-1"), (1.5, "1.5"), (64.0, "64"), (10**30, "1e+30"), (2**63 - 1, str(2**63 - 1)),
                                 ("4", '"4"'), (None, "null"), (True, "true"), ([], "an array"), ({}, "a table")):
                text = json.dumps({**CONFIG, key: value}, indent=0)
                self.write("model/config.json", text)
                self.assert_fails(f"model/config.json:{line}:{column}: error: {key}: expected an integer from", "run", self.model,
                                  "--tokens", 1)
                self.assert_fails(f", got {shown}\n", "run", self.model, "--tokens", 1)

    def test_inner(self):
        for value, shown in ((0, "0"), (-1, "-1"), (2.5, "2.5"), ("a", '"a"'), (True, "true")):
            self.assert_refused(f"8:12: error: n_inner: expected an integer from 1 to 262144, got {shown}", n_inner=value)

    def test_heads(self):
        self.assert_refused("5:11: error: n_embd: expected a multiple of n_head (2), got 33", n_embd=33)
        self.assert_refused("5:11: error: n_embd: expected a multiple of n_head (64), got 32", n_head=64)
        for heads, size in ((1, 264), (2, 20)):
            self.assert_refused(
                f"7:11: error: n_head: expected a head size (n_embd / n_head) that is a multiple of 8 up to 256, got {heads * size}",
                n_embd=heads * size, n_head=heads)

    def test_epsilon(self):
        for value, shown in ((0, "0"), (-1e-05, "-1e-05"), (1e-50, "1e-50"), (2, "2"), ("x", '"x"'), (None, "null")):
            self.assert_refused(f"8:23: error: layer_norm_epsilon: expected a number from 1.2e-38 to 1, got {shown}\n",
                                layer_norm_epsilon=value)
        self.assert_refused("1:24: error: layer_norm_epsilon: expected a number from 1.2e-38 to 1, got inf",
                            '{"layer_norm_epsilon": 1e999, ' + json.dumps(CONFIG)[1:])
        self.assert_refused("1:25: error: not valid JSON", '{"layer_norm_epsilon": NaN, ' + json.dumps(CONFIG)[1:])

    def test_activations(self):
        for value in ("sinus", "GELU", "", 1, None, ["gelu"]):
            self.assert_refused('8:24: error: activation_function: expected "gelu_new", ', activation_function=value)
        for value in ("gelu_pytorch_tanh", "gelu_fast"):
            self.assert_accepted(activation_function=value)

    def test_flags(self):
        for key in ("scale_attn_weights", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "tie_word_embeddings"):
            for value, shown in (("yes", '"yes"'), (1, "1"), (None, "null")):
                self.assert_refused(f"8:{len(key) + 5}: error: {key}: expected true or false, got {shown}", **{key: value})

    def test_end_of_text_ids(self):
        for value, shown in (("x", '"x"'), (1.5, "1.5"), (-1, "-1"), (True, "true")):
            self.assert_refused(f"8:17: error: eos_token_id: expected a token id, got {shown}", eos_token_id=value)
        self.assert_refused('1:22: error: eos_token_id: expected a token id, got "x"',
                            '{"eos_token_id": [1, "x"], ' + json.dumps(CONFIG)[1:])
        self.assert_accepted(eos_token_id=50256)
        self.assert_accepted(eos_token_id=None)

    def test_what_is_not_implemented(self):
        self.assert_refused('2:15: error: model_type: expected "gpt2", got "llama"', model_type="llama")
        self.assert_refused("8:24: error: add_cross_attention: expected false, got true; this is not implemented",
                            add_cross_attention=True)
        self.assert_refused("8:1: error: quantization_config is not implemented", quantization_config={"bits": 4})
        self.assert_refused("8:1: error: pruned_heads is not implemented", pruned_heads={"0": [1]})
        self.assert_accepted(add_cross_attention=False, quantization_config=None, pruned_heads={})

    def test_unknown_keys(self):
        self.assert_refused("8:1: error: unknown key 'n_experts'", n_experts=4)
        self.assert_accepted(_name_or_path="x", attn_pdrop=0.1, torch_dtype="float32", n_ctx=12, architectures=["GPT2LMHeadModel"])

    def test_documents(self):
        for message, text in (("1:1: error: not valid JSON", ""), ("1:1: error: expected a JSON object", "[]"),
                              ("1:1: error: expected a JSON object", "null"), ("2:1: error: not valid JSON", '{"a": 1,\n'),
                              ("1:3: error: not valid JSON: text after end of document", "{}x"),
                              ("1:9: error: key 'a' is given twice", '{"a":1, "a":2}'),
                              ("1:65: error: expected at most 64 nested JSON values", "[" * 100000)):
            with self.subTest(text=text[:40]):
                self.assert_refused(message, text)
        self.assert_refused("1:", b'{"model_type": "\xff"}')

    def test_no_model(self):
        self.assert_fails("none: error: no such model", "run", self.path("none"), "--tokens", 1)
        self.assert_fails("none.toml: error: cannot read: No such file or directory", "compile", self.path("none.toml"))
        file = self.write("model.txt", "")
        self.assert_fails("model.txt: error: expected a GGUF file or a model of llm.c, got an empty file", "compile", file)
        self.assert_fails("config.json: error: cannot read: No such file or directory", "compile", self.folder)


class Toml(KilnTest):
    TEXT = "".join(f"{key} = {CONFIG[key]}\n" for key in INT_KEYS)

    def assert_refused(self, message, text):
        file = self.write("tiny.toml", text)
        self.assert_fails("tiny.toml:" + message, "compile", file, "-o", self.path("plan"))

    def test_missing_keys(self):
        for key in INT_KEYS:
            self.assert_refused(f"1:1: error: missing key '{key}'", self.TEXT.replace(key, "n_inner"))

    def test_integers(self):
        for value, shown in (('"32"', '"32"'), ("32.0", "32"), ("nan", "nan"), ("-inf", "-inf"), ("-8", "-8"), ("[32]", "an array"),
                             ("{a = 1}", "a table"), ("true", "true"), ("1979-05-27", "a value of another kind")):
            self.assert_refused(f"3:10: error: n_embd: expected an integer from 8 to 65536, got {shown}\n",
                                self.TEXT.replace("n_embd = 32", f"n_embd = {value}"))

    def test_other_values(self):
        for line, message in (
                ("n_expert = 1", "6:1: error: unknown key 'n_expert'"), ("[table]\na = 1", "6:2: error: unknown key 'table'"),
                ("attn_pdrop = 0.1", "6:1: error: unknown key 'attn_pdrop'"), ("_x = 1", "6:1: error: unknown key '_x'"),
                ("layer_norm_epsilon = nan", "6:22: error: layer_norm_epsilon: expected a number from 1.2e-38 to 1, got nan"),
                ("layer_norm_epsilon = -0.0", "6:22: error: layer_norm_epsilon: expected a number from 1.2e-38 to 1, got -0"),
                ('activation_function = "sinus"', '6:23: error: activation_function: expected "gelu_new"'),
                ("tie_word_embeddings = 1", "6:23: error: tie_word_embeddings: expected true or false, got 1"),
                ("eos_token_id = [1, 2.5]", "6:20: error: eos_token_id: expected a token id, got 2.5"),
                ("n_embd = 32", "6:10: error: not valid TOML"), ("n_inner =", "6:10: error: not valid TOML"),
                ("n_inner = 99999999999999999999", "6:31: error: not valid TOML")):
            with self.subTest(line=line):
                self.assert_refused(message, self.TEXT + line + "\n")

    def test_documents(self):
        self.assert_refused("1:1: error: missing key", "")
        self.assert_refused("1:1: error: not valid TOML", b"\0")
        self.assert_refused("6:5: error: not valid TOML: encountered invalid utf-8", self.TEXT.encode() + b'a = "\xff"\n')
        self.assert_refused("1:", "a = " + "[" * 100000)

    def test_no_weights(self):
        file = self.write("tiny.toml", self.TEXT)
        self.assert_fails("tiny.toml: error: no weights here: give --weights PATH or --random-weights SEED", "run", file,
                          "--tokens", 1)

    def test_accepted(self):
        for text in (self.TEXT, self.TEXT.replace("\n", "\r\n"), "\ufeff" + self.TEXT, self.TEXT.replace("= 32", "= 0x20"),
                     self.TEXT + "reorder_and_upcast_attn = true\nadd_cross_attention = false\n"):
            file = self.write("tiny.toml", text)
            self.kiln("compile", file, "--stage", "graph")


if __name__ == "__main__":
    unittest.main()
