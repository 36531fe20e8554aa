"""A model without biases gives what the same model with biases of 0 gives, on every device and from every file."""

import os
import unittest

import modelfiles
from kilntest import CONFIG, LOGIT_TOLERANCES, KilnTest, make_weights, pack, safetensors, tensor_shapes, write_model

DEVICE = os.environ.get("KILN_DEVICE", "emulate")
PLAIN = {**CONFIG, "bias": False}
PROMPT = ("--tokens", "1,2,3,4,5", "--max-new-tokens", 4, "--greedy", "--logits")


class WithoutBiases(KilnTest):
    def setUp(self):
        super().setUp()
        self.model = write_model(self.path("model"), PLAIN)

    def logits(self, model, *options, **device):
        result = self.run_json(model, *PROMPT, *options, **device)[0]
        return result["tokens"], result["logits"]

    def zeros(self):
        """The same model, with a vector of zeros for each bias."""
        folder, weights = write_model(self.path("zeros")), make_weights(PLAIN)
        tensors = {}
        for name, shape in tensor_shapes(CONFIG).items():
            values = weights[name][1] if name in weights else [0.0] * shape[0]
            tensors["transformer." + name] = ("F32", shape, pack(values, "F32"))
        self.write("zeros/model.safetensors", safetensors(tensors))
        return folder

    def test_the_model_of_zeros(self):
        tokens, logits = self.logits(self.zeros())
        self.assertEqual(self.logits(self.model), (tokens, logits))
        for dtype, tolerance in (("f32", LOGIT_TOLERANCES["variants", "f32"]), ("bf16", 0.1)):
            with self.subTest(dtype=dtype):
                device_tokens, device_logits = self.logits(self.model, "--dtype", dtype, device=DEVICE)
                self.assertEqual(device_tokens, tokens)
                for row, wanted in zip(device_logits, logits, strict=True):
                    for value, exact in zip(row, wanted, strict=True):
                        self.assertAlmostEqual(value, exact, delta=tolerance)

    def test_every_step(self):
        for strategy in ("fusion=off,layernorm=2", "fusion=norm"):
            self.kiln("run", self.model, *PROMPT[:-1], "--device", DEVICE, "--check", "reference", "--strategy", strategy, "--quiet")

    def test_files(self):
        weights = make_weights(PLAIN)
        file = self.write("model.gguf", modelfiles.gguf(modelfiles.gguf_metadata(PLAIN), modelfiles.gguf_tensors(weights)))
        self.assertEqual(self.logits(file), self.logits(self.model))
        self.kiln("import", file, "-o", self.path("imported"))
        self.assertEqual(self.logits(self.path("imported")), self.logits(self.model))
        self.kiln("export", self.path("imported"), "--format", "gguf", "-o", self.path("again.gguf"))
        self.assertEqual(self.logits(self.path("again.gguf")), self.logits(self.model))
        self.assert_fails("bias: expected true, got false, which llm.c's format cannot describe", "export", self.model, "--format",
                          "llmc", "-o", self.path("x.bin"))

    def test_a_bias_too_many_or_too_few(self):
        weights = make_weights(CONFIG)
        tensors = modelfiles.gguf_tensors({name: tensor for name, tensor in weights.items() if name != "h.1.mlp.c_fc.bias"})
        self.write("few.gguf", modelfiles.gguf(modelfiles.gguf_metadata(CONFIG), tensors))
        self.assert_fails("few.gguf: error: tensor 'blk.1.ffn_up.bias': expected one of shape [128], got none", "run", self.path("few.gguf"),
                          *PROMPT[:-1])
        self.write("model/config.json", str({**PLAIN, "bias": True}).replace("'", '"').replace("True", "true"))
        self.assert_fails("'h.0.attn.c_attn.bias': expected one of shape [96], got none", "run", self.model, *PROMPT[:-1])


if __name__ == "__main__":
    unittest.main()
