#!/usr/bin/env python3
"""Compares `kiln run` with Hugging Face transformers on GPT-2 models with random weights.

  tests/gpu/parity_hf.py [--kiln PATH] [--sizes 124m,odd] [--dtypes f32,tf32,bf16,f16] [--decode graph|persistent]
                        [--device cuda:0] [--ranks N]

Each model is saved with save_pretrained and run from that directory. In fp32, every logit must be within 1e-3 of
Hugging Face's (eager attention, TF32 off), and the greedy tokens must be the same. In 16 bit and with TF32, errors are
measured against Hugging Face in fp32: the maximum and the RMS of Kiln's errors must be at most those of Hugging Face in
the same type. Kiln runs all prompts as one batch; Hugging Face runs them one by one, with the tokens that Kiln has
chosen. With --ranks, N GPUs share each model that has as many heads. Prints a Markdown table; exits with 1 on any failure. Needs torch and transformers.
"""

import argparse
import copy
import json
import random
import subprocess
import sys
import tempfile
import time

import torch
from transformers import AutoModelForCausalLM, GPT2Config

from machine import environment, find_program

SIZES = {"124m": (12, 12, 768), "355m": (24, 16, 1024), "774m": (36, 20, 1280), "1558m": (48, 25, 1600)}
SMALL = {"vocab_size": 1009, "n_positions": 96, "n_embd": 64, "n_layer": 2, "n_head": 2}
ODD = {
    "head-8": {"n_embd": 32, "n_head": 4},
    "head-80": {"n_embd": 240, "n_head": 3, "n_inner": 400},
    "head-256": {"n_embd": 256, "n_head": 1, "activation_function": "gelu"},
    "inner-37": {"n_inner": 37, "activation_function": "relu", "vocab_size": 50257},
    "untied": {"tie_word_embeddings": False, "scale_attn_by_inverse_layer_idx": True, "n_layer": 4},
}
DTYPES = {"f32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
F32_LIMIT = 1e-3


def configurations(sizes):
    """(name, configuration) of each requested model."""
    for size in sizes:
        if size == "odd":
            yield from ((name, {**SMALL, **changes}) for name, changes in ODD.items())
        elif size == "tiny":
            yield "tiny", SMALL
        else:
            layers, heads, channels = SIZES[size]
            yield size, {"n_layer": layers, "n_head": heads, "n_embd": channels}


def make_model(config, seed):
    """Weights from Hugging Face's initialisation. Biases and scales, which it leaves at 0 and 1, are random too."""
    torch.manual_seed(seed)
    gpt2 = GPT2Config(**config, bos_token_id=None, eos_token_id=None)
    model = AutoModelForCausalLM.from_config(gpt2, attn_implementation="eager")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(".bias"):
                parameter.normal_(0, 0.02)
            elif ".ln_" in name:
                parameter.normal_(1, 0.1)
            elif config["n_embd"] <= 256:  # few channels need larger weights, so that every part matters
                parameter.mul_(4)
    return model.eval()


def make_prompts(config, seed, new_tokens):
    generator = random.Random(seed)
    context, vocabulary = config.get("n_positions", 1024), config.get("vocab_size", 50257)
    lengths = sorted({min(length, context - new_tokens) for length in (1, 7, 64, 300, 1000)})
    return [[generator.randrange(vocabulary) for _ in range(length)] for length in lengths]


def run_kiln(arguments, directory, dtype, prompts):
    """(tokens, logits) of each prompt."""
    command = [arguments.kiln, "run", directory, "--device", arguments.device, "--dtype", dtype, "--decode",
               arguments.decode, "--greedy", "--logits", "--json",
               "--quiet", "--max-new-tokens", str(arguments.new_tokens)]
    if arguments.ranks > 1:
        command += ["--ranks", str(arguments.ranks)]
    for prompt in prompts:
        command += ["--tokens", ",".join(map(str, prompt))]
    result = subprocess.run(command, capture_output=True, text=True, env=environment())
    if result.returncode != 0:
        raise RuntimeError(f"kiln run failed with code {result.returncode}: {result.stderr.strip()}")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    return [(row["tokens"], torch.tensor(row["logits"], dtype=torch.float64)) for row in rows]


@torch.no_grad()
def hugging_face(model, prompt, tokens, dtype="f32"):
    """The logits that choose each of the tokens, in double. The model must already be in `dtype`."""
    torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
    ids = torch.tensor([prompt + tokens[:-1]], device=model.device)
    return model(ids).logits[0, len(prompt) - 1 :].double().cpu()


class Errors:
    """The largest and the mean square error over rows of logits."""

    def __init__(self):
        self.largest, self.squares, self.count = 0.0, 0.0, 0

    def add(self, difference):
        self.largest = max(self.largest, float(difference.abs().nan_to_num(float("inf")).max()))
        self.squares += float((difference**2).sum())
        self.count += difference.numel()

    @property
    def rms(self):
        return (self.squares / self.count) ** 0.5


def compare(model, exact, results, prompts, dtype):
    """A row of the table, and whether it passes. `exact`: Hugging Face's fp32 logits of each prompt."""
    own, theirs, differing = Errors(), Errors(), 0
    for (tokens, logits), prompt, wanted in zip(results, prompts, exact, strict=True):
        own.add(logits - wanted)
        if dtype != "f32":
            theirs.add(hugging_face(model, prompt, tokens, dtype) - wanted)
        for row, token in zip(wanted, tokens, strict=True):
            # If the logits of two tokens differ by less than the error, either token is right.
            differing += bool(row.max() - row[token] > 2 * (F32_LIMIT if dtype == "f32" else own.largest))
    if dtype == "f32":
        good = own.largest <= F32_LIMIT and differing == 0
        return [f"{own.largest:.2e}", f"{F32_LIMIT:.0e} allowed", f"{own.rms:.2e}", "", str(differing)], good
    good = own.largest <= theirs.largest and own.rms <= theirs.rms and differing == 0
    return [f"{own.largest:.2e}", f"{theirs.largest:.2e}", f"{own.rms:.2e}", f"{theirs.rms:.2e}", str(differing)], good


def check_model(arguments, name, config):
    """Whether a model passes all checks; prints its rows."""
    where = "cuda" if torch.cuda.is_available() and arguments.device != "cpu" else "cpu"
    model = make_model(config, arguments.seed).to(where)
    prompts = make_prompts(config, arguments.seed, arguments.new_tokens)
    all_good = True
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as directory:
        model.save_pretrained(directory)
        runs = {}
        for dtype in arguments.dtypes:
            start = time.monotonic()
            try:
                results = run_kiln(arguments, directory, dtype, prompts)
            except RuntimeError as error:
                print(f"{name} {dtype}: {error}", file=sys.stderr, flush=True)
                print(f"| {name} | {dtype} | | | | | | failed to run |", flush=True)
                all_good = False
                continue
            # This must be done while the model is still in fp32.
            runs[dtype] = results, [hugging_face(model, prompt, tokens) for prompt, (tokens, _) in zip(prompts, results)]
            print(f"{name} {dtype}: kiln took {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)
    for dtype, (results, exact) in runs.items():
        cells, good = compare(copy.deepcopy(model).to(DTYPES[dtype]), exact, results, prompts, dtype)
        all_good &= good
        print("| " + " | ".join([name, dtype, *cells, "yes" if good else "NO"]) + " |", flush=True)
    return all_good


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kiln", help="the program (default: that of a build, or bin/kiln)")
    parser.add_argument("--sizes", default=",".join([*SIZES, "odd"]), help=f"of {', '.join(SIZES)}, odd, tiny")
    parser.add_argument("--dtypes", default="f32,tf32,bf16,f16")
    parser.add_argument("--decode", choices=["graph", "persistent"], default="graph", help="what runs the layers of new tokens")
    parser.add_argument("--device", default="cuda:0", help="as kiln run takes it; with cpu Hugging Face runs there too")
    parser.add_argument("--ranks", type=int, default=1, help="GPUs that share the model; --device names as many")
    parser.add_argument("--new-tokens", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scratch", help="where to save models (1558m: 6.3 GB)")
    arguments = parser.parse_args()
    arguments.kiln = find_program("kiln", arguments.kiln)
    arguments.sizes, arguments.dtypes = arguments.sizes.split(","), arguments.dtypes.split(",")
    for value, known in [*((size, [*SIZES, "odd", "tiny"]) for size in arguments.sizes),
                         *((dtype, DTYPES) for dtype in arguments.dtypes)]:
        if value not in known:
            parser.error(f"expected one of {', '.join(known)}, got '{value}'")
    return arguments


def main():
    arguments = parse_arguments()
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    print("| model | dtype | max error | Hugging Face's | RMS error | Hugging Face's | other tokens | as it should be |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    good = [check_model(arguments, name, config) for name, config in configurations(arguments.sizes)
            if config["n_head"] >= arguments.ranks]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
