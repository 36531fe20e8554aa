"""Continues a text with a GPT-2 model, and shows how probable the model thinks what it was given. Ctrl-C ends the text.

python generate.py graphs/shakespeare-5m "ROMEO:"
"""

from __future__ import annotations

import sys

import kiln


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print("usage: generate.py MODEL PROMPT", file=sys.stderr)
        return 2
    path, prompt = arguments
    try:
        with kiln.open(path) as model:
            if model.tokenize(prompt).size > 1:
                score = model.log_probabilities(prompt).sum()
                print(f"log-probability of the prompt behind its first token: {score:.3f}", file=sys.stderr)
            print(prompt, end="", flush=True)
            with model.generate(prompt, greedy=True, max_new_tokens=40) as stream:
                try:
                    for token in stream:
                        print(token.text, end="", flush=True)
                except KeyboardInterrupt:
                    pass  # the stream is cancelled, and the model can go on
            print()
    except kiln.Error as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
