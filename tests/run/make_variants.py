#!/usr/bin/env python3
"""Writes tests/data/variants.json with Hugging Face transformers in fp32. Needs torch and transformers; the tests do
not.

  KILN= tests/run/make_variants.py

For each prompt of each variant, it contains the greedy tokens. Of the row of logits that chose the first of them, it
contains the smallest, the largest, and SAMPLE values at equal distances, as [token, logit].
"""

import json
import os

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from kilntest import SOURCE, make_weights
from variants import VARIANTS, new_tokens, prompts

SAMPLE = 12


def build(config):
    model = GPT2LMHeadModel(GPT2Config(**config, attn_implementation="eager", bos_token_id=None, eos_token_id=None)).eval()
    state = {}
    for name, (shape, values) in make_weights(config).items():
        stored = name if name.startswith("lm_head") else "transformer." + name
        state[stored] = torch.tensor(values, dtype=torch.float32).reshape(shape)
    if "lm_head.weight" not in state:
        state["lm_head.weight"] = state["transformer.wte.weight"]
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and all(name.endswith(".attn.bias") for name in missing), (missing, unexpected)
    return model


def sample(row):
    wanted = {int(row.argmin()), int(row.argmax()), *range(0, len(row), max(1, len(row) // SAMPLE))}
    return [[token, float(f"{row[token].item():.7g}")] for token in sorted(wanted)]


def margin(row):
    top = torch.topk(row, min(2, len(row))).values
    return float(top[0] - top[-1]) if len(top) > 1 else 1.0


@torch.no_grad()
def expect(model, prompt, count):
    tokens, first = list(prompt), None
    for _ in range(count):
        # Logits past the context are needed only for tokens that still fit.
        row = model(torch.tensor([tokens])).logits[0, -1].double()
        first = sample(row) if first is None else first
        assert margin(row) > 2e-4, f"{margin(row)}: two tokens are so close that rounding may choose: take another seed"
        tokens.append(int(row.argmax()))
    return {"prompt": prompt, "tokens": tokens[len(prompt):], "logits": first}


def main():
    results = {}
    for name, (config, _) in VARIANTS.items():
        model = build(config)
        results[name] = [expect(model, prompt, new_tokens(config, prompt)) for prompt in prompts(config)]
        print(name, [len(entry["prompt"]) for entry in results[name]], [entry["tokens"] for entry in results[name]])
    lines = [f'{json.dumps(name)}: {json.dumps(cases, separators=(",", ":"))}' for name, cases in results.items()]
    with open(os.path.join(SOURCE, "tests", "data", "variants.json"), "w") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


main()
