#!/usr/bin/env python3
"""Results must not depend on their company: prompts side by side and one at a time, with guesses and without.

  tests/gpu/company.py [--kiln PATH] [--device cuda:0] [--dtypes f32,bf16] [--prompts 100000] [--large 6000]
                       [--tokens 10240] [--guesses 1,2,4,5,8] [--batches 1,3,8]

Every comparison is of all tokens; none may differ. These are compared:

- `kiln run --input` with `--batch 64` and `--batch 1`, in each type, on prompts of unequal length: --prompts of the
  embedded model, and --large of GPT-2 124M with random weights in bf16.
- `kiln run` without and with `--draft`, in each type, --tokens new tokens for each draft (the model itself, one that is
  always wrong, one with random weights, the text, the embedded draft), each number of guesses and each batch.

Prints a line for each comparison, and exits with 1 if any token differs. Without a GPU, prints so and exits with 0.
"""

import argparse
import itertools
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time

from machine import SHAKESPEARE, SOURCE, environment, find_program

DRAFT = os.path.join(SOURCE, "graphs", "shakespeare-draft")
LARGE = os.path.join(SOURCE, "graphs", "gpt2-124m.toml")
SETTINGS = ({"greedy": True}, {"temperature": 1.0, "top_k": 0}, {"temperature": 0.8, "top_k": 50}, {"top_p": 0.9})


class Failed(Exception):
    pass


def config_of(model):
    with open(os.path.join(model, "config.json")) as file:
        return json.load(file)


def write_lines(path, count, vocabulary, lengths, new_tokens):
    """Prompts with settings in turn; `lengths` and `new_tokens` are functions of a random number generator."""
    numbers = random.Random(count)
    with open(path, "w") as file:
        for i in range(count):
            line = {"tokens": [numbers.randrange(vocabulary) for _ in range(lengths(numbers))],
                    "max_new_tokens": new_tokens(numbers), **SETTINGS[i % len(SETTINGS)]}
            if not line.get("greedy"):
                line["seed"] = i
            file.write(json.dumps(line) + "\n")


def write_drafts(folder):
    """Copies of the embedded draft with random weights, and with the rows of its embedding moved, so that what it finds
    probable is another token. Returns their folders."""
    with open(os.path.join(DRAFT, "model.safetensors"), "rb") as file:
        content = file.read()
    size = struct.unpack("<Q", content[:8])[0]
    header, data = json.loads(content[8: 8 + size]), bytearray(content[8 + size:])
    numbers = random.Random(1)
    noise, moved = bytearray(data), bytearray(data)
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        begin, end = tensor["data_offsets"]
        if tensor["dtype"] != "BF16":
            raise Failed(f"{DRAFT}: expected tensors of BF16, got {tensor['dtype']}")
        count = (end - begin) // 2
        values = struct.pack(f"<{count}f", *(numbers.gauss(0, 0.1) for _ in range(count)))
        noise[begin:end:2], noise[begin + 1:end:2] = values[2::4], values[3::4]  # the upper halves of floats
        if name.endswith("wte.weight"):
            row = (end - begin) // tensor["shape"][0]
            moved[begin:end] = data[begin + row: end] + data[begin: begin + row]
    folders = {}
    for name, weights in (("random", noise), ("wrong", moved)):
        folders[name] = os.path.join(folder, name)
        os.makedirs(folders[name])
        with open(os.path.join(folders[name], "model.safetensors"), "wb") as file:
            file.write(content[: 8 + size] + bytes(weights))
        for other in os.listdir(DRAFT):
            if other != "model.safetensors":
                os.symlink(os.path.join(DRAFT, other), os.path.join(folders[name], other))
    return folders


class Comparison:
    """Runs of one program on one device, in a folder of its own."""

    def __init__(self, kiln, device, folder):
        self.kiln, self.device, self.folder = kiln, device, folder
        self.differed = 0

    def tokens(self, lines, *arguments):
        output = os.path.join(self.folder, "output.jsonl")
        if os.path.exists(output):
            os.remove(output)
        command = [self.kiln, "run", *arguments, "--device", self.device, "--input", lines, "--output", output,
                   "--ignore-eos", "--quiet", "--decode", "graph"]  # else a plan for one sequence has another kernel
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
        if result.returncode != 0:
            raise Failed(" ".join(command) + "\n" + result.stderr[-2000:])
        with open(output) as file:
            return [json.loads(line)["tokens"] for line in file]

    def compare(self, title, one, other):
        start = time.monotonic()
        one, other = one() if callable(one) else one, other()
        different = sum(a != b for a, b in itertools.zip_longest(one, other))
        self.differed += different
        print(f"{title}: {different} of {len(one)} results with {sum(map(len, one))} tokens differ "
              f"({time.monotonic() - start:.1f} s)", flush=True)

    def prompts(self, model, dtype, count, longest, *arguments):
        """Side by side and one at a time. Most prompts are short; there are some of each class of lengths."""
        if count == 0:
            return
        lines = os.path.join(self.folder, "lines.jsonl")
        vocabulary = config_of(model)["vocab_size"] if os.path.isdir(model) else 50257
        longest = min(longest, config_of(model)["n_positions"] if os.path.isdir(model) else 1024) - 6

        def length(numbers):
            kind = numbers.random()
            return numbers.choice((16, 17, 64, 65)) if kind < 0.3 else numbers.randint(1, 70 if kind < 0.9 else longest)

        write_lines(lines, count, vocabulary, length, lambda numbers: numbers.randint(2, 6))
        run = [model, "--dtype", dtype, *arguments]
        self.compare(f"{os.path.basename(model)}, {dtype}, --batch 64 and 1",
                     lambda: self.tokens(lines, *run, "--batch", "64"), lambda: self.tokens(lines, *run, "--batch", "1"))

    def guesses(self, dtype, count, drafts, guesses, batches):
        """Without and with guesses, `count` new tokens a comparison."""
        if count == 0:
            return
        lines, new_tokens = os.path.join(self.folder, "lines.jsonl"), 160
        write_lines(lines, max(1, count // new_tokens), config_of(SHAKESPEARE)["vocab_size"],
                    lambda numbers: numbers.randint(1, 30), lambda _: min(count, new_tokens))
        run = [SHAKESPEARE, "--dtype", dtype]
        alone = self.tokens(lines, *run, "--batch", "1")
        for draft, most, batch in itertools.product(drafts, guesses, batches):
            self.compare(f"{dtype}, draft {draft}, {most} guesses, --batch {batch}", alone,
                         lambda: self.tokens(lines, *run, "--draft", drafts[draft], "--draft-tokens", str(most),
                                             "--batch", str(batch)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kiln", help="the program (default: that of a build, or bin/kiln)")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--prompts", type=int, default=100000, help="of the embedded model; 0: none")
    parser.add_argument("--large", type=int, default=6000, help="prompts of GPT-2 124M; 0: none")
    parser.add_argument("--tokens", type=int, default=10240, help="new tokens of a comparison with guesses; 0: none")
    numbers = lambda text: [int(number) for number in text.split(",")]
    parser.add_argument("--dtypes", type=lambda text: text.split(","), default=["f32", "bf16"])
    parser.add_argument("--guesses", type=numbers, default=[1, 2, 4, 5, 8], help="of a pass")
    parser.add_argument("--batches", type=numbers, default=[1, 3, 8], help="of the comparisons with guesses")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(find_program("kiln", arguments.kiln), arguments.device, folder)
        try:
            comparison.prompts(SHAKESPEARE, "f32", 1, 8)
        except Failed as failure:
            if "--device cpu and emulate need none" in str(failure):
                print("skipped: no GPU, or no driver for it, on this machine")
                return 0
            raise
        drafts = {"itself": SHAKESPEARE, **write_drafts(folder), "text": "ngram", "embedded": DRAFT}
        for dtype in arguments.dtypes:
            comparison.prompts(SHAKESPEARE, dtype, arguments.prompts, 256)
            comparison.guesses(dtype, arguments.tokens, drafts, arguments.guesses, arguments.batches)
        comparison.prompts(LARGE, "bf16", arguments.large, 400, "--random-weights", "1")
    print("none differ" if comparison.differed == 0 else f"{comparison.differed} results differ")
    return 1 if comparison.differed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failure:
        sys.exit(f"error: {failure}")
