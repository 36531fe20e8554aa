"""Bad checkpoints (truncated, overlapping, inconsistent, incomplete) are refused by name before anything runs."""

import json
import os
import unittest

from kilntest import CONFIG, KilnTest, join_header, make_weights, pack, safetensors, write_model

C_ATTN, WTE = "transformer.h.0.attn.c_attn.weight", "transformer.wte.weight"


def tensors(dtype="F32"):
    return {"transformer." + name: (dtype, shape, pack(values, dtype)) for name, (shape, values) in make_weights(CONFIG).items()}


class Checkpoint(KilnTest):
    def setUp(self):
        super().setUp()
        self.model = write_model(self.path("model"))
        with open(self.path("model/model.safetensors"), "rb") as file:
            self.bytes = file.read()
        self.header_size = int.from_bytes(self.bytes[:8], "little")
        self.header = json.loads(self.bytes[8 : 8 + self.header_size])
        self.buffer = self.bytes[8 + self.header_size :]

    def run_one(self):
        return self.kiln("run", self.model, "--tokens", 1, "--max-new-tokens", 1, "--greedy", "--quiet").out

    def assert_refused(self, message, contents, file="model.safetensors"):
        self.write("model/" + file, contents)
        self.assert_fails(message, "run", self.model, "--tokens", 1, "--max-new-tokens", 1)

    def with_entry(self, name=C_ATTN, **changes):
        header = {**self.header, name: {**self.header[name], **changes}}
        return join_header(header, self.buffer)

    def test_sizes(self):
        prefix = "model/model.safetensors: error: "
        for message, contents in (
                ("expected a safetensors file of at least 8 bytes, got 0", b""),
                ("expected a safetensors file of at least 8 bytes, got 7", self.bytes[:7]),
                ("expected a header within the file's 8 bytes, got", self.bytes[:8]),
                ("expected a header within the file's 200 bytes, got", self.bytes[:200]),
                ("expected its data to end within the file's 0 bytes of data", self.bytes[: 8 + self.header_size]),
                ("the file may be truncated", self.bytes[:-1]),
                ("the file may be truncated", self.bytes[: len(self.bytes) // 2]),
                ("expected the file to end with the last tensor", self.bytes + b"x"),
                ("expected a header of at most 100000000 bytes, got 18446744073709551615", b"\xff" * 8 + self.bytes[8:]),
                ("header: expected a JSON object", bytes(8) + self.bytes[8:])):
            with self.subTest(message=message):
                self.assert_refused(message, contents)
                self.assert_refused(prefix, contents)

    def test_headers(self):
        for message, header in (("expected a JSON object", b"[]"), ("expected a JSON object", b"\xff\xfe"),
                                ("not valid JSON", json.dumps(self.header).encode()[:-1]),
                                ("text after end of document", json.dumps(self.header).encode() + b"{}"),
                                (f"expected '{WTE}' to be an object", {**self.header, WTE: []}),
                                ("__metadata__: expected 'a' to be a string", {**self.header, "__metadata__": {"a": 1}}),
                                ("expected each key once", json.dumps(self.header).encode()[:-1] + b', "__metadata__": {}}')):
            with self.subTest(message=message):
                self.assert_refused(message, join_header(header, self.buffer))

    def test_entries(self):
        begin, end = self.header[C_ATTN]["data_offsets"]
        for message, changes in (
                ("expected dtype F32, F16 or BF16, got I32", {"dtype": "I32"}),
                ("expected a known dtype, got 'F33'", {"dtype": "F33"}),
                ("expected a known dtype, got none", {"dtype": 32}),
                ("bytes for F64[32,96], got", {"dtype": "F64"}),
                ("expected shape [32,96], got [96,32]", {"shape": [96, 32]}),
                ("expected shape [32,96], got [32,96,1]", {"shape": [32, 96, 1]}),
                ("expected 'shape' to be an array of non-negative integers", {"shape": [32, -96]}),
                ("expected 'shape' to be an array of non-negative integers", {"shape": [32, 96.5]}),
                ("expected 'shape' to be an array of non-negative integers", {"shape": "x"}),
                ("expected a shape whose size fits in 63 bits", {"shape": [2**40, 2**40]}),
                ("expected 'data_offsets' to be two non-negative integers", {"data_offsets": [begin]}),
                ("expected 'data_offsets' to be two non-negative integers", {"data_offsets": [-1, end]}),
                ("expected data_offsets that do not decrease", {"data_offsets": [end, begin]}),
                ("which overlaps another tensor", {"data_offsets": [begin - 4, end - 4]}),
                ("which leaves a hole", {"data_offsets": [begin + 4, end + 4]}),
                ("bytes for F32[32,96], got", {"data_offsets": [begin, 2**62]})):
            with self.subTest(changes=changes):
                self.assert_refused(message, self.with_entry(**changes))
                self.assert_refused("model/model.safetensors: error: tensor '", self.with_entry(**changes))

    def test_missing_tensors(self):
        for name, shape in (("wte.weight", "[29,32]"), ("h.0.attn.c_attn.bias", "[96]"), ("h.1.mlp.c_proj.weight", "[128,32]"),
                            ("ln_f.bias", "[32]")):
            left = {key: value for key, value in tensors().items() if key != "transformer." + name}
            self.assert_refused(f"tensor '{name}': expected one of shape {shape}, got none", safetensors(left))

    def test_config_and_checkpoint_disagree(self):
        for changes, message in (({"n_layer": 3}, "tensor 'h.2.attn.c_attn.weight': expected one of shape [32,96], got none"),
                                 ({"n_layer": 1}, "tensor 'transformer.h.1.attn.c_attn.bias': expected tensors of the model, got one that it "
                                                  "does not have; the model may have fewer layers (n_layer) than this"),
                                 ({"vocab_size": 30}, f"tensor '{WTE}': expected shape [30,32], got [29,32]"),
                                 ({"n_positions": 25}, "expected shape [25,32], got [24,32]"),
                                 ({"n_inner": 100}, "c_fc.weight': expected shape [32,100], got [32,128]"),
                                 ({"tie_word_embeddings": False}, "tensor 'lm_head.weight': expected one of shape [29,32], got none")):
            self.write("model/config.json", json.dumps({**CONFIG, **changes}))
            self.assert_fails(message, "run", self.model, "--tokens", 1, "--max-new-tokens", 1)

    def test_values_that_are_no_numbers(self):
        begin = len(self.bytes) - 4
        for value, shown in ((b"\x00\x00\xc0\x7f", "nan"), (b"\x00\x00\x80\x7f", "infinity")):
            self.assert_refused(f"error: logits: expected finite numbers, got {shown} for token",
                                self.bytes[:begin] + value)

    def test_accepted(self):
        wanted = self.run_one()
        stored = tensors()
        mask = ("F32", [1, 1, 2, 2], bytes(16))
        for contents in (
                join_header(json.dumps(self.header).encode() + b" " * 13, self.buffer),
                safetensors({name.removeprefix("transformer."): entry for name, entry in stored.items()}),
                safetensors(dict(reversed(stored.items()))),
                safetensors({**stored, "transformer.h.0.attn.bias": mask, "h.1.attn.masked_bias": mask}),
                safetensors({**stored, "lm_head.weight": stored[WTE]})):
            self.write("model/model.safetensors", contents)
            self.assertEqual(self.run_one(), wanted)

    def test_tensors_that_the_model_does_not_have(self):
        stored = tensors()
        dtype, shape, data = stored[WTE]
        self.assert_refused("tensor 'lm_head.weight': expected the bytes of 'wte.weight', to which the model ties it, got others",
                            safetensors({**stored, "lm_head.weight": (dtype, shape, data[:-1] + b"x")}))
        self.assert_refused("tensor 'score.weight': expected tensors of the model, got one that it does not have",
                            safetensors({**stored, "score.weight": ("I64", [1], bytes(8))}))

    def test_the_same_tensor_twice(self):
        stored = tensors()
        self.assert_refused("tensor 'wte.weight': expected it once, got it with and without the prefix",
                            safetensors({**stored, "wte.weight": stored[WTE]}))

    def test_places(self):
        os.remove(self.path("model/model.safetensors"))
        self.assert_fails("model: error: expected model.safetensors or model.safetensors.index.json, got neither", "run",
                          self.model, "--tokens", 1)
        self.assert_fails("none: error: expected model.safetensors", "run", self.model, "--tokens", 1, "--weights", self.path("none"))
        os.mkdir(self.path("model/model.safetensors"))
        self.assert_fails("model.safetensors: error: cannot read: is a directory", "run", self.model, "--tokens", 1)


class Shards(KilnTest):
    INDEX = "model/model.safetensors.index.json"

    def setUp(self):
        super().setUp()
        self.model = write_model(self.path("model"), shards=3)
        with open(self.path(self.INDEX)) as file:
            self.map = json.load(file)["weight_map"]

    def assert_refused(self, message, text):
        self.write(self.INDEX, text)
        self.assert_fails(message, "run", self.model, "--tokens", 1, "--max-new-tokens", 1)

    def test_indices(self):
        index = self.INDEX + ":1:"
        self.assert_refused(index + "2: error: not valid JSON", "{")
        self.assert_refused(self.INDEX + ": error: expected an object 'weight_map', got none", "{}")
        self.assert_refused(index + "16: error: weight_map: expected an object", '{"weight_map": []}')
        for name in ("../model.safetensors", "/etc/passwd", "", 1, None):
            self.assert_refused(f"tensor '{WTE}': expected the name of a file beside the index",
                                json.dumps({"weight_map": {**self.map, WTE: name}}))

    def test_shards(self):
        other = next(name for name in self.map.values() if name != self.map[WTE])
        self.assert_refused(f"tensor '{WTE}': expected it in ", json.dumps({"weight_map": {**self.map, WTE: other}}))
        self.assert_refused("model/none: error: cannot read: No such file", json.dumps({"weight_map": {**self.map, WTE: "none"}}))
        del self.map[WTE]
        self.assert_refused("tensor 'wte.weight': expected one of shape [29,32], got none", json.dumps({"weight_map": self.map}))
        os.truncate(self.path("model", other), 100)
        self.assert_refused(other + ": error: expected a header within the file's 100 bytes", json.dumps({"weight_map": self.map}))


if __name__ == "__main__":
    unittest.main()
