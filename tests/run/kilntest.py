"""Helpers for tests of the kiln program: they run it, and make models without any library.

Every test runs the program that KILN names, and writes in a directory of its own. Needs only the standard library.
"""

import array
import json
import math
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

KILN = os.environ["KILN"]
SOURCE = os.path.normpath(os.path.join(os.path.dirname(__file__), "..", ".."))
SHAKESPEARE = os.path.join(SOURCE, "graphs", "shakespeare-5m")
# The configuration of the smallest model that has every part.
TINY_MODEL = """vocab_size = 31
n_positions = 16
n_embd = 16
n_layer = 1
n_head = 1
n_inner = 64
activation_function = "gelu_new"
layer_norm_epsilon = 1e-5
tie_word_embeddings = true
"""
# The IR of the smallest module that makes a kernel; `{}` is the kind of GELU.
ONE_KERNEL = """module @small {{
  dim B : 1..4
  dim T : 1..16
  weight %w : f32[32,32] = "h.0.mlp.c_fc.weight"
  weight %b : f32[32] = "h.0.mlp.c_fc.bias"

  func @f(%x: f32[B,T,32]) -> f32[B,T,32] {{
    %act = fused @matmul_bias_gelu(%x, %w, %b) {{
      %mm = matmul %x, %w : f32[B,T,32]
      %add = add %mm, %b : f32[B,T,32]
      %act = gelu %add {{approx = {}}} : f32[B,T,32]
      yield %act
    }} : f32[B,T,32]
    return %act
  }}
}}
"""
# The largest error of a logit against transformers in fp32, by model and by the dtype that Kiln uses.
LOGIT_TOLERANCES = {("variants", "f32"): 1e-4, ("shakespeare", "f32"): 2e-4, ("shakespeare", "f16"): 1e-2}
TIMEOUT = 600  # seconds; a hang is a failure, but no test depends on speed


class Result:
    def __init__(self, process):
        self.code = process.returncode
        self.out = process.stdout
        self.err = process.stderr.decode("utf-8", "replace")

    def objects(self):
        """Standard output as one JSON object per line; it must contain nothing else."""
        return [json.loads(line, parse_constant=refuse_constant) for line in self.out.decode("utf-8").splitlines()]


def refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


def run_kiln(*arguments, stdin=b"", **options):
    command = [KILN, *(argument if isinstance(argument, bytes) else str(argument) for argument in arguments)]
    return Result(subprocess.run(command, input=stdin, capture_output=True, timeout=TIMEOUT, **options))


class KilnTest(unittest.TestCase):
    """A test with a temporary directory, `self.folder`."""

    maxDiff = None

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kiln-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write(self, name, contents):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(contents if isinstance(contents, bytes) else contents.encode())
        return self.path(name)

    def kiln(self, *arguments, **options):
        """Runs the program and requires success."""
        result = run_kiln(*arguments, **options)
        self.assertEqual(result.code, 0, result.err)
        return result

    def run_json(self, *arguments, device="cpu", **options):
        return self.kiln("run", "--json", "--quiet", "--device", device, *arguments, **options).objects()

    def assert_fails(self, message, *arguments, code=1, **options):
        """The program prints `message` (without the temporary directory's name) but no result, and changes no file."""
        before = snapshot(self.folder)
        result = run_kiln(*arguments, **options)
        self.assertEqual(result.code, code, result.err)
        self.assertIn(message, result.err.replace(self.folder + "/", "").replace(self.folder, ""))
        self.assertEqual(result.out, b"")
        self.assertEqual(snapshot(self.folder), before, "files changed")


def snapshot(folder):
    """Every file below a folder with its contents; every directory with None."""
    found = {}
    for root, folders, files in os.walk(folder):
        for name in folders:
            found[os.path.relpath(os.path.join(root, name), folder)] = None
        for name in files:
            with open(os.path.join(root, name), "rb") as file:
                found[os.path.relpath(os.path.join(root, name), folder)] = file.read()
    return found


def ids(numbers):
    return ",".join(map(str, numbers))


# ---- Models ----------------------------------------------------------------------------------------------------------

CONFIG = {"model_type": "gpt2", "vocab_size": 29, "n_positions": 24, "n_embd": 32, "n_layer": 2, "n_head": 2}


def tensor_shapes(config):
    """The tensors of a checkpoint, in order, with Hugging Face's names without the prefix."""
    channels, layers, has_biases = config["n_embd"], config["n_layer"], config.get("bias", True)
    inner = config.get("n_inner") or 4 * channels
    shapes = {"wte.weight": [config["vocab_size"], channels], "wpe.weight": [config["n_positions"], channels]}

    def norm(name):
        shapes.update({name + ".weight": [channels], **({name + ".bias": [channels]} if has_biases else {})})

    def linear(name, rows, columns):
        shapes.update({name + ".weight": [rows, columns], **({name + ".bias": [columns]} if has_biases else {})})

    for layer in range(layers):
        norm(f"h.{layer}.ln_1")
        linear(f"h.{layer}.attn.c_attn", channels, 3 * channels)
        linear(f"h.{layer}.attn.c_proj", channels, channels)
        norm(f"h.{layer}.ln_2")
        linear(f"h.{layer}.mlp.c_fc", channels, inner)
        linear(f"h.{layer}.mlp.c_proj", inner, channels)
    norm("ln_f")
    if config.get("tie_word_embeddings") is False:
        shapes["lm_head.weight"] = [config["vocab_size"], channels]
    return shapes


def make_weights(config, seed=1):
    """Weights that make every part of the arithmetic matter, equal on every machine: multiples of 2^-6 with few bits,
    which F16 and BF16 represent exactly. Python guarantees that random.random gives the same values for a seed."""
    generator = random.Random(seed)
    weights = {}
    for name, shape in tensor_shapes(config).items():
        is_norm_weight = ".ln_" in "." + name and name.endswith(".weight")
        is_matrix = len(shape) == 2 and not name.startswith("w")
        spread = 8 if is_norm_weight or name.endswith(".bias") else 24
        if is_matrix:
            spread = max(4, min(48, int(160 / math.sqrt(shape[0]))))
        middle = 64 if is_norm_weight else 0
        values = [(middle + int((2 * generator.random() - 1) * spread)) / 64 for _ in range(math.prod(shape))]
        weights[name] = (shape, values)
    return weights


def pack(values, dtype):
    if dtype == "F16":
        return struct.pack(f"<{len(values)}e", *values)
    data = array.array("f", values)
    if sys.byteorder == "big":
        data.byteswap()
    if dtype == "F32":
        return data.tobytes()
    # BF16 is the upper half of F32; the lower half of these values is zero.
    raw = data.tobytes()
    return b"".join(raw[at + 2 : at + 4] for at in range(0, len(raw), 4))


def safetensors(tensors):
    """The bytes of a file with the given (dtype, shape, bytes) by name."""
    header, buffer = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(buffer), len(buffer) + len(data)]}
        buffer += data
    return join_header(header, buffer)


def join_header(header, buffer):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + buffer


def write_model(folder, config=CONFIG, dtype="F32", prefix="transformer.", shards=1, seed=1):
    """Writes a model directory in the format of Hugging Face's save_pretrained."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=2)
    tensors = {}
    for name, (shape, values) in make_weights(config, seed).items():
        stored = name if name.startswith("lm_head") else prefix + name
        tensors[stored] = (dtype, shape, pack(values, dtype))
    if shards == 1:
        with open(os.path.join(folder, "model.safetensors"), "wb") as file:
            file.write(safetensors(tensors))
        return folder
    weight_map = {}
    for shard in range(shards):
        name = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        own = {key: tensors[key] for key in list(tensors)[shard::shards]}
        weight_map.update({key: name for key in own})
        with open(os.path.join(folder, name), "wb") as file:
            file.write(safetensors(own))
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {}, "weight_map": weight_map}, file)
    return folder


def break_sums_of_rank_1(plan, folder):
    """Writes the kernels of a plan that add up few rows of all ranks into `folder`, edited: rank 1 stores the sums far outside."""
    os.makedirs(folder, exist_ok=True)
    edited = 0
    for name in os.listdir(os.path.join(plan, "kernels")):
        with open(os.path.join(plan, "kernels", name)) as file:
            text = file.read()
        if name.startswith("all_reduce") and "_out});" in text and "exchangeElements<Config>(" in text:
            edited += 1
            with open(os.path.join(folder, name), "w") as file:
                file.write(text.replace("_out});", "_out + (rank == 1 ? i64(1) << 20 : 0)});"))
    assert edited, "the plan has such kernels"


if __name__ == "__main__":
    sys.exit("this is a library; run the tests beside it")
