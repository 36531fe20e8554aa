#!/usr/bin/env python3
"""Writes a checkpoint that PyTorch has saved as a directory that kiln reads: config.json and model.safetensors.

    tools/import_torch.py pytorch_model.bin -o gpt2    Hugging Face's older form; config.json and the vocabulary beside it
    tools/import_torch.py out/ckpt.pt -o mine          nanoGPT's, also with bias=False

Weights keep their types and bits. nanoGPT's files have no vocabulary: copy one into the directory, or give --tokens to
kiln run. Needs PyTorch 2 or later (pip install torch numpy). Only tensors and plain values are loaded, never code.
"""

import argparse
import json
import os
import pathlib
import shutil
import struct
import sys
import tempfile

VOCABULARY = ("vocab.json", "merges.txt", "added_tokens.json", "tokenizer.json", "generation_config.json")
TYPES = {"torch.float32": "F32", "torch.float16": "F16", "torch.bfloat16": "BF16"}


class ImportFailed(Exception):
    """A message for the user: `FILE: error: …`."""


def fail(path, message):
    raise ImportFailed(f"{path}: error: {message}")


def load_torch():
    try:
        import numpy  # noqa: F401 (tensors are written through it)
        import torch
    except ImportError as error:
        raise ImportFailed(f"error: this script needs PyTorch and numpy: pip install torch numpy ({error})") from error
    return torch


def load_file(path):
    torch = load_torch()
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises errors of many types for files that are none of its own
        reason = (str(error).split("WeightsUnpickler error:")[-1].strip() or type(error).__name__).splitlines()[0]
        fail(path, "cannot read: expected a checkpoint that torch.save wrote, with tensors and plain values only, and PyTorch 2 "
                   f"or later, got {torch.__version__}: {reason}")


def is_mask(name):
    """Whether a tensor is a causal mask, stored as a buffer."""
    return name.endswith((".attn.bias", ".attn.masked_bias"))


def from_nanogpt(path, checkpoint):
    """The configuration and the tensors, by Hugging Face's names. nanoGPT's matrices are [out, in]."""
    sizes = checkpoint.get("model_args")
    needed = ("n_layer", "n_head", "n_embd", "block_size", "vocab_size")
    if not isinstance(sizes, dict) or any(not isinstance(sizes.get(key), int) for key in needed):
        fail(path, f"model_args: expected the sizes {', '.join(needed)} of a nanoGPT model")
    config = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": sizes["vocab_size"],
              "n_positions": sizes["block_size"], "n_embd": sizes["n_embd"], "n_layer": sizes["n_layer"], "n_head": sizes["n_head"],
              # nanoGPT computes the exact GELU, where OpenAI's models have the one by tanh.
              "activation_function": "gelu", "layer_norm_epsilon": 1e-05, "bos_token_id": None, "eos_token_id": None}
    if not sizes.get("bias", True):
        config["bias"] = False
    tensors = {}
    for name, tensor in checkpoint["model"].items():
        name = name.removeprefix("_orig_mod.")  # of torch.compile
        if not is_mask(name):
            is_matrix = name.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight"))
            tensors[name] = tensor.t() if is_matrix else tensor
    head, embedding = tensors.get("lm_head.weight"), tensors.get("transformer.wte.weight")
    if head is not None and embedding is not None:
        config["tie_word_embeddings"] = bool(head.shape == embedding.shape and (head == embedding).all())
        if config["tie_word_embeddings"]:
            del tensors["lm_head.weight"]
    return config, tensors


def from_hugging_face(path, state):
    """The configuration beside the file, and the tensors."""
    config_path = path.parent / "config.json"
    if not config_path.exists():
        fail(config_path, "expected the configuration beside the checkpoint, got no such file")
    config = json.loads(config_path.read_text())
    return config, {name: tensor for name, tensor in state.items() if not is_mask(name)}


def tensor_bytes(path, name, tensor):
    """The type and the bytes of a tensor."""
    import torch

    kind = TYPES.get(str(tensor.dtype))
    if kind is None:
        fail(path, f"tensor '{name}': expected float32, float16 or bfloat16, got {tensor.dtype}")
    tensor = tensor.detach().contiguous()
    return kind, (tensor.view(torch.int16) if kind == "BF16" else tensor).numpy().tobytes()


def write_safetensors(target, path, tensors):
    header, buffers, end = {"__metadata__": {"format": "pt"}}, [], 0
    # Tensors of wider types come first, so that each is aligned.
    for name, tensor in sorted(tensors.items(), key=lambda item: -item[1].element_size()):
        kind, data = tensor_bytes(path, name, tensor)
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [end, end + len(data)]}
        end += len(data)
        buffers.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(target, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for data in buffers:
            file.write(data)


def read_checkpoint(path):
    checkpoint = load_file(path)
    if isinstance(checkpoint, dict) and isinstance(checkpoint.get("model"), dict):
        return from_nanogpt(path, checkpoint), ()
    if isinstance(checkpoint, dict) and checkpoint and all(hasattr(value, "element_size") for value in checkpoint.values()):
        return from_hugging_face(path, checkpoint), VOCABULARY
    fail(path, "expected the tensors of a GPT-2 (pytorch_model.bin) or a checkpoint of nanoGPT (ckpt.pt), got something else")


def convert(path, output):
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        fail(output, "cannot write: expected a new or empty directory")
    if not path.is_file():
        fail(path, "cannot read: expected a file")
    (config, tensors), beside = read_checkpoint(path)
    output.parent.mkdir(parents=True, exist_ok=True)
    # Complete or not at all.
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=output.name + ".tmp-") as folder:
        stage = pathlib.Path(folder) / "stage"
        stage.mkdir()
        (stage / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        write_safetensors(stage / "model.safetensors", path, tensors)
        for name in beside:
            if (path.parent / name).exists():
                shutil.copy(path.parent / name, stage)
        os.replace(stage, output)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE", type=pathlib.Path, help="pytorch_model.bin or nanoGPT's ckpt.pt")
    parser.add_argument("-o", metavar="DIR", dest="output", type=pathlib.Path, required=True, help="the directory to write")
    options = parser.parse_args()
    try:
        convert(options.file, options.output)
    except (ImportFailed, OSError, ValueError) as error:
        message = str(error) if isinstance(error, ImportFailed) else f"{options.file}: error: {error}"
        print(message, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
