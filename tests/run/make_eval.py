#!/usr/bin/env python3
"""Writes tests/data/eval.json with Hugging Face transformers in fp32: the score of tests/data/eval.txt under the
embedded model, for several windows and strides. Needs torch and transformers; the tests do not.

  KILN= tests/run/make_eval.py
"""

import json
import os

import torch
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
    scores = [{"window": window, "stride": stride, "nll": score(model, tokens, window, stride)} for window, stride in WINDOWS]
    with open(os.path.join(SOURCE, "tests", "data", "eval.json"), "w") as file:
        json.dump({"tokens": tokens, "scores": scores}, file)
        file.write("\n")


main()
