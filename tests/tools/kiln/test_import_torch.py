"""tools/import_torch.py: checkpoints that PyTorch has saved. Needs torch, but for the message that says so."""

import os
import subprocess
import sys
import unittest

from kilntest import CONFIG, SOURCE, TIMEOUT, KilnTest, make_weights, write_model

try:
    import numpy  # noqa: F401
    import torch
except ImportError:
    torch = None
if torch and int(torch.__version__.split(".")[0]) < 2:
    torch = None  # cannot load floats without running code

SCRIPT = os.path.join(SOURCE, "tools", "import_torch.py")
# nanoGPT's models: an exact GELU.
PLAIN = {**CONFIG, "activation_function": "gelu"}
PROMPT = ("--tokens", "1,2,3,4,5", "--max-new-tokens", 4, "--greedy", "--logits")


def run_script(*arguments, **environment):
    return subprocess.run([sys.executable, "-B", SCRIPT, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT,
                          env={**os.environ, **environment})


class WithoutTorch(KilnTest):
    def test_the_message(self):
        self.write("modules/torch.py", "raise ImportError('none here')\n")
        self.write("modules/numpy.py", "")
        file = self.write("ckpt.pt", "PK")
        result = run_script(file, "-o", self.path("out"), PYTHONPATH=self.path("modules"))
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertEqual(result.stderr, "error: this script needs PyTorch and numpy: pip install torch numpy (none here)\n")
        self.assertFalse(os.path.exists(self.path("out")))

    def test_kiln_names_the_script(self):
        file = self.write("pytorch_model.bin", b"PK\x03\x04")
        self.assert_fails("got a file of PyTorch; convert it with tools/import_torch.py", "run", file, "--tokens", 1)
        model = write_model(self.path("model"))
        os.rename(os.path.join(model, "model.safetensors"), os.path.join(model, "pytorch_model.bin"))
        self.assert_fails("got pytorch_model.bin; convert it with tools/import_torch.py", "run", model, "--tokens", 1)


@unittest.skipIf(torch is None, "PyTorch 2 is not installed")
class WithTorch(KilnTest):
    def logits(self, model):
        result = self.run_json(model, *PROMPT)[0]
        return result["tokens"], result["logits"]

    def convert(self, file, code=0):
        result = run_script(file, "-o", self.path("out"))
        self.assertEqual((result.returncode, result.stdout), (code, ""), result.stderr)
        return result.stderr.replace(self.folder + "/", "")

    def tensors(self, config, dtype, prefix="transformer."):
        return {("" if name.startswith("lm_head") else prefix) + name: torch.tensor(values, dtype=dtype).reshape(shape)
                for name, (shape, values) in make_weights(config).items()}

    def test_pytorch_model_bin(self):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            state = self.tensors(CONFIG, dtype)
            state["transformer.h.0.attn.bias"] = torch.ones(1, 1, 24, 24, dtype=torch.uint8)
            model = write_model(self.path(f"{dtype}"), CONFIG)
            os.remove(os.path.join(model, "model.safetensors"))
            torch.save(state, os.path.join(model, "pytorch_model.bin"))
            self.convert(os.path.join(model, "pytorch_model.bin"))
            self.assertEqual(self.logits(self.path("out")), self.logits(write_model(self.path("model"))))
            os.rename(self.path("out"), self.path(f"out-{dtype}"))

    def nanogpt(self, config, compiled=False, **changes):
        state = self.tensors(config, torch.float32)
        for name in state:
            if name.endswith(".weight") and ".c_" in name:
                state[name] = state[name].t().contiguous()
        state["lm_head.weight"] = state["transformer.wte.weight"]
        state["transformer.h.0.attn.bias"] = torch.ones(1, 1, 24, 24)
        sizes = {"n_layer": 2, "n_head": 2, "n_embd": 32, "block_size": 24, "vocab_size": 29, "dropout": 0.0, "bias": config.get("bias", True)}
        checkpoint = {"model": {("_orig_mod." if compiled else "") + name: tensor for name, tensor in state.items()},
                      "model_args": {**sizes, **changes}, "iter_num": 5, "best_val_loss": torch.tensor(1.5), "config": {"dataset": "x"}}
        torch.save(checkpoint, self.path("ckpt.pt"))
        return self.path("ckpt.pt")

    def test_nanogpt(self):
        for bias, compiled in ((True, False), (False, True)):
            config = PLAIN if bias else {**PLAIN, "bias": False}
            self.assertEqual(self.convert(self.nanogpt(config, compiled)), "")
            self.assertEqual(self.logits(self.path("out")), self.logits(write_model(self.path(f"model-{bias}"), config)))
            os.rename(self.path("out"), self.path(f"out-{bias}"))

    def test_errors(self):
        self.assertIn("ckpt.pt: error: model_args: expected the sizes", self.convert(self.nanogpt(PLAIN, n_head="2"), code=1))
        torch.save({"a": 1}, self.path("other.pt"))
        self.assertIn("other.pt: error: expected the tensors of a GPT-2", self.convert(self.path("other.pt"), code=1))
        torch.save({"a": torch.ones(2, dtype=torch.float64)}, self.path("double.bin"))
        self.assertIn("config.json: error: expected the configuration beside", self.convert(self.path("double.bin"), code=1))
        self.write("config.json", "{}")
        self.assertIn("tensor 'a': expected float32, float16 or bfloat16, got torch.float64", self.convert(self.path("double.bin"), code=1))
        self.assertIn("cannot read: expected a checkpoint that torch.save wrote", self.convert(self.write("text.bin", "hello"), code=1))
        self.assertIn("nowhere: error: cannot read", self.convert(self.path("nowhere"), code=1))
        self.assertFalse(os.path.exists(self.path("out")))
        self.write("out/mine", "")
        self.assertIn("out: error: cannot write: expected a new or empty directory", self.convert(self.nanogpt(PLAIN), code=1))
        self.assertEqual(os.listdir(self.path("out")), ["mine"])


if __name__ == "__main__":
    unittest.main()
