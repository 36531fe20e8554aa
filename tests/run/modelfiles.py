"""Writes and reads GGUF files and llm.c's files with the standard library alone, from the formats' descriptions, so that
kiln's reader and writer are not only tested against each other.

Tensors are those of kilntest.make_weights: by Hugging Face's names, as (shape, values), matrices [in, out].
"""

import json
import math
import os
import struct

from kilntest import pack

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
TENSOR_TYPES = {"F32": 0, "F16": 1, "Q8_0": 8, "BF16": 30}
NUMBERS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q", I64: "q", F64: "d"}
MODULES = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "lm_head": "output", "ln_1": "attn_norm",
           "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up",
           "mlp.c_proj": "ffn_down"}
# llm.c's order; the flag: one for every layer.
PARAMETERS = [("wte.weight", False), ("wpe.weight", False), ("ln_1.weight", True), ("ln_1.bias", True), ("attn.c_attn.weight", True),
              ("attn.c_attn.bias", True), ("attn.c_proj.weight", True), ("attn.c_proj.bias", True), ("ln_2.weight", True),
              ("ln_2.bias", True), ("mlp.c_fc.weight", True), ("mlp.c_fc.bias", True), ("mlp.c_proj.weight", True),
              ("mlp.c_proj.bias", True), ("ln_f.weight", False), ("ln_f.bias", False)]


def is_matrix(name):
    """Whether the files have the transposed tensor."""
    return name.endswith(".weight") and ".c_" in name


def transposed(shape, values):
    rows, columns = shape
    return [columns, rows], [values[row * columns + column] for column in range(columns) for row in range(rows)]


def stored(name, tensor):
    shape, values = tensor
    return transposed(shape, values) if is_matrix(name) else (shape, values)


def round_half_away(value):
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def pack_q8(values):
    """Blocks of 32: a factor in F16, then a rounded quotient for each value."""
    data = b""
    for at in range(0, len(values), 32):
        block = values[at : at + 32]
        factor = struct.unpack("<e", struct.pack("<e", max(map(abs, block)) / 127))[0]
        data += struct.pack("<e", factor)
        data += struct.pack("<32b", *(max(-127, min(127, round_half_away(value / factor))) if factor else 0 for value in block))
    return data


def unpack_q8(data):
    values = []
    for at in range(0, len(data), 34):
        factor = struct.unpack_from("<e", data, at)[0]
        values += [factor * quotient for quotient in struct.unpack_from("<32b", data, at + 2)]
    return values


# ---- GGUF ------------------------------------------------------------------------------------------------------------


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_value(kind, value):
    if kind == STRING:
        return text(value)
    if kind == ARRAY:
        element, items = value
        return struct.pack("<IQ", element, len(items)) + b"".join(gguf_value(element, item) for item in items)
    return struct.pack("<" + NUMBERS[kind], value)


def gguf(values, tensors, version=3, alignment=32):
    """The bytes of a file. `values`: (kind, value) by key; `tensors`: (type, file's shape, bytes) by name, where the shape
    has the row-major order of numpy."""
    header = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values))
    for key, (kind, value) in values.items():
        header += text(key) + struct.pack("<I", kind) + gguf_value(kind, value)
    data = b""
    for name, (kind, shape, contents) in tensors.items():
        number = TENSOR_TYPES.get(kind, kind)
        header += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), number, len(data))
        data += contents + bytes(-len(contents) % alignment)
    return header + bytes(-len(header) % alignment) + data


def gguf_name(name):
    start, parts = "", name.split(".")
    if parts[0] == "h":
        start, parts = f"blk.{parts[1]}.", parts[2:]
    return start + MODULES[".".join(parts[:-1])] + "." + parts[-1]


def gguf_metadata(config, vocabulary=None):
    """`vocabulary`: (tokens as vocab.json spells them, merges, id of the end of text), or none."""
    values = {"general.architecture": (STRING, "gpt2"),
              "gpt2.context_length": (U32, config["n_positions"]),
              "gpt2.embedding_length": (U32, config["n_embd"]),
              "gpt2.feed_forward_length": (U32, config.get("n_inner") or 4 * config["n_embd"]),
              "gpt2.block_count": (U32, config["n_layer"]),
              "gpt2.attention.head_count": (U32, config["n_head"]),
              "gpt2.attention.layer_norm_epsilon": (F32, config.get("layer_norm_epsilon", 1e-5))}
    if vocabulary:
        tokens, merges, end = vocabulary
        values.update({"tokenizer.ggml.model": (STRING, "gpt2"), "tokenizer.ggml.pre": (STRING, "gpt-2"),
                       "tokenizer.ggml.tokens": (ARRAY, (STRING, tokens)),
                       "tokenizer.ggml.token_type": (ARRAY, (I32, [3 if i == end else 1 for i in range(len(tokens))])),
                       "tokenizer.ggml.merges": (ARRAY, (STRING, merges)),
                       "tokenizer.ggml.eos_token_id": (U32, end)})
    return values


def gguf_tensors(weights, dtype="F32"):
    """Matrices have the type `dtype`; vectors are F32, as ggml wants them."""
    tensors = {}
    for name, tensor in weights.items():
        shape, values = stored(name, tensor)
        kind = dtype if len(shape) == 2 else "F32"
        tensors[gguf_name(name)] = (kind, shape, pack_q8(values) if kind == "Q8_0" else pack(values, kind))
    return tensors


class Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        self.at += count
        assert self.at <= len(self.data)
        return self.data[self.at - count : self.at]

    def number(self, kind):
        return struct.unpack("<" + NUMBERS[kind], self.take(struct.calcsize("<" + NUMBERS[kind])))[0]

    def value(self, kind):
        if kind == STRING:
            return self.take(self.number(U64)).decode()
        if kind == ARRAY:
            element = self.number(U32)
            return [self.value(element) for _ in range(self.number(U64))]
        return self.number(kind)


def read_gguf(data):
    """Keys with their values, and tensors as (type's number, row-major shape, bytes)."""
    cursor = Cursor(data)
    assert cursor.take(4) == b"GGUF" and cursor.number(U32) == 3
    tensor_count, value_count = cursor.number(U64), cursor.number(U64)
    values, places = {}, {}
    for _ in range(value_count):
        key = cursor.value(STRING)
        values[key] = cursor.value(cursor.number(U32))
    for _ in range(tensor_count):
        name = cursor.value(STRING)
        shape = [cursor.number(U64) for _ in range(cursor.number(U32))][::-1]
        places[name] = (cursor.number(U32), shape, cursor.number(U64))
    start = -(-cursor.at // 32) * 32
    sizes = {0: 4, 1: 2, 30: 2}
    tensors = {}
    for name, (kind, shape, offset) in places.items():
        assert offset % 32 == 0
        tensors[name] = (kind, shape, data[start + offset :][: math.prod(shape) * sizes[kind]])
    return values, tensors


# ---- llm.c -----------------------------------------------------------------------------------------------------------


def padded(count):
    return -(-count // 128) * 128


def llmc(config, weights, dtype="F32"):
    """The bytes of a model file, version 3 (F32) or 5 (BF16)."""
    rows = padded(config["vocab_size"])
    header = [20240326, 3 if dtype == "F32" else 5, config["n_positions"], config["vocab_size"], config["n_layer"],
              config["n_head"], config["n_embd"], rows]
    data = [struct.pack("<256i", *header, *[0] * (256 - len(header)))]
    for name, is_of_layer in PARAMETERS:
        for layer in range(config["n_layer"] if is_of_layer else 1):
            full = f"h.{layer}.{name}" if is_of_layer else name
            values = stored(full, weights[full])[1]
            if name == "wte.weight":
                values = list(values) + [0.0] * ((rows - config["vocab_size"]) * config["n_embd"])
            data.append(pack(values, dtype))
    return b"".join(data)


def llmc_tokenizer(tokens, end, version=2):
    """`tokens`: the bytes of each."""
    header = [20240328, version, len(tokens), end]
    return struct.pack("<256i", *header, *[0] * (256 - len(header))) + b"".join(bytes([len(token)]) + token for token in tokens)


def debug_state(inputs, targets, logits, loss, gradients=b""):
    """llm.c's debug state: lists of ids for each sequence, rows of logits for each token, and their mean loss."""
    header = [20240327, 2, len(inputs), len(inputs[0])]
    data = struct.pack("<256i", *header, *[0] * (256 - len(header)))
    for ids in (inputs, targets):
        data += b"".join(struct.pack(f"<{len(row)}i", *row) for row in ids)
    data += b"".join(struct.pack(f"<{len(row)}f", *row) for sequence in logits for row in sequence)
    return data + struct.pack("<f", loss) + gradients


# ---- Vocabulary ------------------------------------------------------------------------------------------------------


def byte_alphabet():
    """The character that stands for each byte in vocab.json, as OpenAI's encoder.py has it."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {**{byte: chr(byte) for byte in printable}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}


def token_bytes(spelling):
    byte_of = {character: byte for byte, character in byte_alphabet().items()}
    return bytes(byte_of[character] for character in spelling)


def read_vocabulary(folder, tokens="vocab.json", merges="merges.txt"):
    """The tokens of a directory by id, and its merges."""
    with open(os.path.join(folder, tokens), encoding="utf-8") as file:
        by_token = json.load(file)
    with open(os.path.join(folder, merges), encoding="utf-8") as file:
        merges = [line for line in file.read().splitlines() if line and not line.startswith("#version")]
    return sorted(by_token, key=by_token.get), merges
