"""The GPT-2 variants with results in tests/data/variants.json, and their prompts."""

import random

from kilntest import CONFIG

VARIANTS = {}


def variant(name, storage=None, **changes):
    VARIANTS[name] = ({**CONFIG, **changes}, storage or {})


variant("plain")
for size in (8, 16, 24, 40, 64, 80):
    variant(f"head-size-{size}", n_embd=2 * size)
for size in (128, 256):
    variant(f"head-size-{size}", n_embd=size, n_head=1, n_layer=1)
for inner in (1, 37, 100):
    variant(f"inner-{inner}", n_inner=inner)
variant("inner-null", n_inner=None)
for name in ("gelu_new", "gelu", "relu"):
    variant(f"activation-{name}", activation_function=name)
for epsilon in (1e-12, 1e-3, 0.5):
    variant(f"epsilon-{epsilon}", layer_norm_epsilon=epsilon)
variant("unscaled", scale_attn_weights=False)
variant("scaled-by-layer", scale_attn_by_inverse_layer_idx=True, n_layer=4)
variant("only-scaled-by-layer", scale_attn_by_inverse_layer_idx=True, scale_attn_weights=False, n_layer=3)
variant("upcast", reorder_and_upcast_attn=True)
variant("upcast-scaled-by-layer", reorder_and_upcast_attn=True, scale_attn_by_inverse_layer_idx=True)
variant("untied", tie_word_embeddings=False)
for size in (1, 2, 7, 1009):
    variant(f"vocabulary-{size}", vocab_size=size)
variant("vocabulary-50257", vocab_size=50257, n_embd=8, n_head=1, n_layer=1)
for count in (1, 2, 3):
    variant(f"positions-{count}", n_positions=count)
variant("positions-2048", n_positions=2048, n_embd=16)
for dtype in ("F16", "BF16"):
    variant(f"stored-{dtype}", storage={"dtype": dtype})
variant("without-prefix", storage={"prefix": ""})
variant("sharded", storage={"shards": 5})
variant("sharded-untied-f16", storage={"shards": 3, "dtype": "F16"}, tie_word_embeddings=False)
variant("everything", storage={"dtype": "BF16", "shards": 2}, n_embd=120, n_head=3, n_inner=37, n_layer=3, vocab_size=1009,
        activation_function="relu", layer_norm_epsilon=1e-3, scale_attn_by_inverse_layer_idx=True,
        reorder_and_upcast_attn=True, tie_word_embeddings=False)

NEW_TOKENS = 6


def prompts(config):
    """Prompts of one token, of several, of as many as leave room for new ones, and of the whole context."""
    generator = random.Random(config["vocab_size"] + 1)
    context = config["n_positions"]
    lengths = sorted({1, min(5, context), max(1, context - NEW_TOKENS), context})
    return [[int(generator.random() * config["vocab_size"]) for _ in range(length)] for length in lengths]


def new_tokens(config, prompt):
    """The number of tokens that can follow; the last one need not fit."""
    return min(NEW_TOKENS, config["n_positions"] - len(prompt) + 1)
