#!/usr/bin/env python3
"""Writes, with Hugging Face transformers in fp32 and the embedded model, tests/data/eval.json: the score of
tests/data/eval.txt for several windows and strides, and the log-probability of each token behind all those before it;
and tests/data/logits.safetensors: its first tokens in two sequences, and their logits. Needs torch, transformers,
tokenizers and safetensors; the tests do not.

  KILN= tests/run/make_eval.py
"""

import json
import os

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2LMHeadModel

from kilntest import SHAKESPEARE, SOURCE

WINDOWS = [(1024, 1024), (100, 100), (64, 16), (64, 63), (5, 5)]


@torch.no_grad()
def score(model, tokens, window, stride):
    """Scores each token but the first once, in the first window that predicts it."""
    nll, scored = 0.0, 1
    for start in range(0, len(tokens), stride):
        if scored == len(tokens):
            break
        inputs = torch.tensor([tokens[start : start + window]])
        log_probabilities = torch.log_softmax(model(inputs).logits[0].double(), -1)
        end = min(start + window + 1, len(tokens))
        for target in range(max(scored, start + 1), end):
            nll -= float(log_probabilities[target - 1 - start, tokens[target]])
        scored = end
    return nll


def main():
    model = GPT2LMHeadModel.from_pretrained(SHAKESPEARE, dtype=torch.float32, attn_implementation="eager").eval()
    tokenizer = Tokenizer(models.BPE.from_file(f"{SHAKESPEARE}/vocab.json", f"{SHAKESPEARE}/merges.txt"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    with open(os.path.join(SOURCE, "tests", "data", "eval.txt"), encoding="utf-8") as file:
        tokens = tokenizer.encode(file.read()).ids
    with torch.no_grad():
        ids = torch.tensor([tokens])
        logs = torch.log_softmax(model(ids).logits[0].double(), -1)
        log_probabilities = [round(float(logs[i - 1, tokens[i]]), 7) for i in range(1, len(tokens))]
        ids = torch.tensor(tokens[:24]).reshape(2, 12)
        save_file({"tokens": ids, "logits": model(ids).logits.contiguous()}, os.path.join(SOURCE, "tests", "data", "logits.safetensors"))
    scores = [{"window": window, "stride": stride, "nll": score(model, tokens, window, stride)} for window, stride in WINDOWS]
    with open(os.path.join(SOURCE, "tests", "data", "eval.json"), "w") as file:
        json.dump({"tokens": tokens, "scores": scores, "log_probabilities": log_probabilities}, file)
        file.write("\n")


main()
