"""GGUF files and llm.c's files are models like the directories that they were made from, to the last bit."""

import os
import shutil
import unittest

import modelfiles
from kilntest import CONFIG, SHAKESPEARE, KilnTest, make_weights, pack, safetensors, write_model

UNTIED = {**CONFIG, "tie_word_embeddings": False}
PROMPT = ("--tokens", "1,2,3,4,5", "--max-new-tokens", 4, "--greedy", "--logits")


class ModelFiles(KilnTest):
    def logits(self, model, *options):
        result = self.run_json(model, *PROMPT, *options)[0]
        return result["tokens"], result["logits"]

    def gguf(self, name, config=CONFIG, dtype="F32", weights=None, vocabulary=None, **changes):
        weights = weights or make_weights(config)
        values = {**modelfiles.gguf_metadata(config, vocabulary), **changes}
        return self.write(name, modelfiles.gguf(values, modelfiles.gguf_tensors(weights, dtype)))

    def llmc(self, name, config=CONFIG, dtype="F32"):
        return self.write(name, modelfiles.llmc(config, make_weights(config), dtype))

    def test_every_type_of_elements(self):
        # The weights are exact in each of the types, so that every file is the same model.
        expected = self.logits(write_model(self.path("model")))
        for dtype in ("F32", "F16", "BF16"):
            with self.subTest(dtype=dtype):
                self.assertEqual(self.logits(self.gguf(f"{dtype}.gguf", dtype=dtype)), expected)
        for dtype in ("F32", "BF16"):
            with self.subTest(dtype=dtype, format="llm.c"):
                self.assertEqual(self.logits(self.llmc(f"{dtype}.bin", dtype=dtype)), expected)

    def test_blocks_of_eight_bits(self):
        weights = make_weights(CONFIG)
        tensors = {}
        for name, tensor in weights.items():
            shape, values = modelfiles.stored(name, tensor)
            if len(shape) == 2:
                values = modelfiles.unpack_q8(modelfiles.pack_q8(values))
                shape, values = modelfiles.transposed(shape, values) if modelfiles.is_matrix(name) else (shape, values)
            tensors[name] = ("F32", shape, pack(values, "F32"))
        directory = write_model(self.path("model"))
        self.write("model/model.safetensors", safetensors(tensors))
        self.assertEqual(self.logits(self.gguf("q8.gguf", dtype="Q8_0")), self.logits(directory))

    def test_a_head_of_its_own(self):
        expected = self.logits(write_model(self.path("model"), UNTIED))
        self.assertEqual(self.logits(self.gguf("untied.gguf", UNTIED)), expected)
        # Converters write a copy of the embedding for a model that has no other head.
        tied = make_weights(CONFIG)
        copied = self.gguf("copy.gguf", weights={**tied, "lm_head.weight": tied["wte.weight"]})
        graph = self.kiln("compile", copied, "--stage", "graph").out.decode()
        self.assertNotIn("lm_head", graph)
        self.assertIn('loc("copy.gguf/config.json":', graph)

    def test_a_file_gives_the_weights_of_a_plan(self):
        plan = self.path("plan")
        self.kiln("compile", write_model(self.path("model")), "--stage", "cuda", "--quiet", "-o", plan)
        expected = self.logits(self.path("model"))
        for name in (self.gguf("model.gguf"), self.llmc("model.bin")):
            self.assertEqual(self.logits(plan, "--weights", name), expected)

    def test_versions_and_alignments(self):
        expected = self.logits(self.gguf("model.gguf"))
        tensors = modelfiles.gguf_tensors(make_weights(CONFIG))
        old = self.write("old.gguf", modelfiles.gguf(modelfiles.gguf_metadata(CONFIG), tensors, version=2))
        self.assertEqual(self.logits(old), expected)
        values = {**modelfiles.gguf_metadata(CONFIG), "general.alignment": (modelfiles.U32, 256)}
        wide = self.write("wide.gguf", modelfiles.gguf(values, tensors, alignment=256))
        self.assertEqual(self.logits(wide), expected)


class Vocabularies(KilnTest):
    TEXT = "ROMEO: What's in a name?\n\n  That which we call <|endoftext|> a rose\u00e9 \U0001f339 123"

    def setUp(self):
        super().setUp()
        self.tokens, self.merges = modelfiles.read_vocabulary(SHAKESPEARE)
        self.end = self.tokens.index("<|endoftext|>")
        self.bytes = [b"<|endoftext|>" if i == self.end else modelfiles.token_bytes(token) for i, token in enumerate(self.tokens)]

    def ids(self, model, *options):
        return self.kiln("tokenize", model, "--text", self.TEXT, *options).out

    def test_every_file_gives_the_same_ids(self):
        values = modelfiles.gguf_metadata(CONFIG, (self.tokens, self.merges, self.end))
        gguf = self.write("vocabulary.gguf", modelfiles.gguf(values, {}))
        llmc = self.write("gpt2_tokenizer.bin", modelfiles.llmc_tokenizer(self.bytes, self.end))
        model = self.write("gpt2_124M.bin", modelfiles.llmc(CONFIG, make_weights(CONFIG)))
        for options in ((), ("--special",)):
            for file in (gguf, llmc, model, self.folder):
                with self.subTest(file=file, options=options):
                    self.assertEqual(self.ids(file, *options), self.ids(SHAKESPEARE, *options))

    @unittest.skipUnless("KILN_GPT2_VOCAB" in os.environ, "KILN_GPT2_VOCAB does not name a folder with GPT-2's vocabulary")
    def test_gpt2(self):
        """llm.c's tokenizer has no merges; those that are found again are GPT-2's."""
        folder = os.environ["KILN_GPT2_VOCAB"]
        tokens, merges = modelfiles.read_vocabulary(folder, "encoder.json", "vocab.bpe")
        byte_tokens = [*(modelfiles.token_bytes(token) for token in tokens[:-1]), b"<|endoftext|>"]
        config = {**CONFIG, "vocab_size": 50257}
        self.write("gpt2_tokenizer.bin", modelfiles.llmc_tokenizer(byte_tokens, 50256))
        shape = [50257, 32]
        weights = {**make_weights(CONFIG), "wte.weight": (shape, [0.0] * (50257 * 32))}
        self.kiln("import", self.write("model.bin", modelfiles.llmc(config, weights, "BF16")), "-o", self.path("imported"))
        self.assertEqual(modelfiles.read_vocabulary(self.path("imported")), (tokens, merges))

    def test_text_of_a_model_with_its_tokenizer(self):
        config = {**CONFIG, "vocab_size": len(self.tokens)}
        write_model(self.path("model"), {**config, "eos_token_id": self.end})
        for name in ("vocab.json", "merges.txt"):
            shutil.copy(os.path.join(SHAKESPEARE, name), self.path("model"))
        weights = make_weights(config)
        files = [self.write("model.gguf", modelfiles.gguf(modelfiles.gguf_metadata(config, (self.tokens, self.merges, self.end)),
                                                          modelfiles.gguf_tensors(weights))),
                 self.write("llmc/model.bin", modelfiles.llmc(config, weights))]
        self.write("llmc/gpt2_tokenizer.bin", modelfiles.llmc_tokenizer(self.bytes, self.end))

        def run(model):
            command = ("run", model, "--prompt", "ROMEO:", "--max-new-tokens", 8, "--seed", 3, "--device", "cpu", "--quiet")
            return self.kiln(*command).out

        for file in files:
            self.assertEqual(run(file), run(self.path("model")))
            # An empty prompt begins with the end-of-text token, which the file knows.
            self.kiln("run", file, "--max-new-tokens", 1, "--greedy", "--device", "cpu", "--quiet")

    def test_tokenizers_that_are_refused(self):
        def gguf(**changes):
            values = modelfiles.gguf_metadata(CONFIG, (self.tokens, self.merges, self.end))
            values.update({"tokenizer.ggml." + key: value for key, value in changes.items()})
            return modelfiles.gguf(values, {})

        text, items = modelfiles.STRING, lambda values: (modelfiles.ARRAY, (modelfiles.STRING, values))
        types = (modelfiles.ARRAY, (modelfiles.I32, [1, 2]))
        for message, contents in (
                ("tokenizer.ggml.model: expected 'gpt2', got 'llama'", gguf(model=(text, "llama"))),
                ("tokenizer.ggml.pre: expected 'gpt-2' or 'default', got 'qwen2'", gguf(pre=(text, "qwen2"))),
                ("tokenizer.ggml.add_bos_token: expected false, as for GPT-2, got true", gguf(add_bos_token=(modelfiles.BOOL, True))),
                ("tokenizer.ggml.tokens: item 2: '!': token is listed twice", gguf(tokens=items(["!", "a", "!"]), token_type=(modelfiles.ARRAY, (modelfiles.I32, [1] * 3)))),
                ("tokenizer.ggml.token_type: expected a type for each of 1009 tokens, got 2", gguf(token_type=types)),
                ("tokenizer.ggml.merges: item 1: expected two parts separated by one space, got 'ab'", gguf(merges=items(["Ġ t", "ab"]))),
                ("tokenizer.ggml.merges: item 0: right part of a merge: 'zzz' is not", gguf(merges=items(["a zzz"]))),
                ("expected merges that make each of the vocabulary's", gguf(merges=items([]))),
                ("bad.gguf: note: no merge makes '", gguf(merges=items([])))):
            with self.subTest(message=message):
                file = self.write("bad.gguf", contents)
                self.assert_fails(message, "tokenize", file, "--text", "a")
        first = self.bytes.index(b" t")
        swapped = list(self.bytes)
        swapped[first], swapped[-2] = swapped[-2], swapped[first]
        for message, contents in (
                ("bad.bin: error: byte 4: version: expected 1 or 2, got 3", modelfiles.llmc_tokenizer(self.bytes, self.end, 3)),
                ("byte 12: end-of-text token: expected one of the 1009 tokens, got number 1009", modelfiles.llmc_tokenizer(self.bytes, 1009)),
                ("the tokens are not in the order of their merges", modelfiles.llmc_tokenizer(swapped, self.end)),
                ("expected bytes that no other token has", modelfiles.llmc_tokenizer([*self.bytes, b"a"], self.end)),
                ("expected a token for each byte, got none for 0x00", modelfiles.llmc_tokenizer([b"a", b"<"], 1)),
                ("expected the file to end with the last token, got 1 more", modelfiles.llmc_tokenizer(self.bytes, self.end) + b"x"),
                ("up to the end of the file, which may be truncated", modelfiles.llmc_tokenizer(self.bytes, self.end)[:-1])):
            with self.subTest(message=message):
                file = self.write("bad.bin", contents)
                self.assert_fails(message, "tokenize", file, "--text", "a")


class BadModels(KilnTest):
    def assert_refused(self, message, contents, name="bad"):
        self.write(name, contents)
        self.assert_fails(message, "run", self.path(name), "--tokens", 1, "--max-new-tokens", 1)

    def test_other_files(self):
        for message, contents in (("bad: error: expected a GGUF file or a model of llm.c, got bytes 68656c6c", b"hello"),
                                  ("got an empty file", b""), ("got a file of PyTorch; convert it", b"PK\x03\x04..."),
                                  ("got a big-endian GGUF file", b"FUGG"),
                                  ("got a safetensors file; give the directory", bytes(8) + b"{}")):
            self.assert_refused(message, contents)

    def test_gguf(self):
        weights = make_weights(CONFIG)
        tensors = modelfiles.gguf_tensors(weights)
        norm = "blk.0.attn_norm.weight"
        vector = tensors[norm]

        def made(**changes):
            return modelfiles.gguf({**modelfiles.gguf_metadata(CONFIG), **changes}, tensors)

        def given(**changes):
            return modelfiles.gguf(modelfiles.gguf_metadata(CONFIG), {**tensors, **changes})

        keys = modelfiles.gguf_metadata(CONFIG)
        del keys["gpt2.block_count"]
        for message, contents in (
                ("byte 4: version: expected 2 or 3, got 1", modelfiles.gguf({}, {}, version=1)),
                ("got one of a big-endian file; convert it", modelfiles.gguf({}, {}, version=3 << 24)),
                ("general.architecture: expected 'gpt2', got 'llama'", made(**{"general.architecture": (modelfiles.STRING, "llama")})),
                ("gpt2.block_count: expected an integer from 1 to 2147483647, got no such key", modelfiles.gguf(keys, tensors)),
                ("gpt2.block_count: expected an integer from 1 to 2147483647, got 0", made(**{"gpt2.block_count": (modelfiles.U32, 0)})),
                ("gpt2.context_length: expected an integer from 1 to 2147483647, got 'x'", made(**{"gpt2.context_length": (modelfiles.STRING, "x")})),
                ("general.alignment: expected a power of two, got 24", made(**{"general.alignment": (modelfiles.U32, 24)})),
                ("bad/config.json:8:13: error: n_head: expected a head size", made(**{"gpt2.attention.head_count": (modelfiles.U32, 16)})),
                ("tensor 'position_embd.weight': expected shape [25,32], got [24,32]", made(**{"gpt2.context_length": (modelfiles.U32, 25)})),
                ("tensor 'blk.2.attn_qkv.weight': expected one of shape [32,96], got none", made(**{"gpt2.block_count": (modelfiles.U32, 3)})),
                ("tensor 'blk.1.attn_qkv.bias': expected tensors of the model", made(**{"gpt2.block_count": (modelfiles.U32, 1)})),
                (f"tensor '{norm}': expected type F32, F16, BF16 or Q8_0, got Q4_K; convert", given(**{norm: (12, *vector[1:])})),
                (f"tensor '{norm}': expected type F32, F16, BF16 or Q8_0, got number 99", given(**{norm: (99, *vector[1:])})),
                (f"tensor '{norm}': expected rows of whole blocks of 32 elements, got 33", given(**{norm: ("Q8_0", [33], bytes(68))})),
                (f"tensor '{norm}': expected 1 to 4 dimensions, got 5", given(**{norm: ("F32", [1] * 5, bytes(4))})),
                ("tensor 'blk..token_embd.weight': expected tensors of a GPT-2", given(**{"blk..token_embd.weight": vector})),
                ("tensor 'rope': expected tensors of a GPT-2, got one that it does not have", given(rope=vector)),
                ("tensor 'token_embd.weight': expected a matrix, got none", modelfiles.gguf(modelfiles.gguf_metadata(CONFIG), {})),
                ("the file may be truncated", made()[:-200])):
            with self.subTest(message=message):
                self.assert_refused(message, contents)

    def test_offsets(self):
        file = bytearray(modelfiles.gguf(modelfiles.gguf_metadata(CONFIG), modelfiles.gguf_tensors(make_weights(CONFIG))))
        record = modelfiles.text("position_embd.weight")
        place = file.index(record) + len(record) + 4 + 16 + 4
        for message, offset in (("expected an offset that is a multiple of 32, got 33", 33),
                                ("expected bytes of its own, got some of tensor", 32),
                                ("expected its 3072 bytes within the", 1 << 40)):
            file[place : place + 8] = offset.to_bytes(8, "little")
            self.assert_refused(message, bytes(file))

    def test_llmc(self):
        whole = modelfiles.llmc(CONFIG, make_weights(CONFIG))

        def with_number(index, value):
            return whole[: 4 * index] + value.to_bytes(4, "little", signed=True) + whole[4 * index + 4 :]

        for message, contents in (
                ("byte 4: version: expected 3 (fp32) or 5 (bf16), got 1; write the file again", with_number(1, 1)),
                ("byte 8: most tokens of a sequence: expected a number above 0, got 0", with_number(2, 0)),
                ("byte 12: size of the vocabulary: expected a number above 0, got -5", with_number(3, -5)),
                ("byte 28: padded size of the vocabulary: expected at least its size of 129, got 128", with_number(3, 129)),
                ("byte 20: number of heads: expected a number above 0, got 0", with_number(5, 0)),
                ("it may be damaged or truncated", with_number(4, 2**31 - 1)),
                ("expected a file of more than 2^63 bytes", with_number(6, 2**31 - 1)),
                (f"byte 8: expected a file of {len(whole)} bytes, for 2 layers of 32 channels, 24 tokens and a vocabulary padded to 128, "
                 f"got one of {len(whole) - 1}; it may", whole[:-1]),
                ("byte 24: number of channels: expected 4 bytes, got 2", whole[:26])):
            with self.subTest(message=message):
                self.assert_refused(message, contents)


if __name__ == "__main__":
    unittest.main()
