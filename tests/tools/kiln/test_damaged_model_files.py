"""GGUF files and llm.c's files that are cut, flipped or have huge counts: an error that names the place, never a crash."""

import random
import re
import struct
import unittest

import modelfiles
from kilntest import CONFIG, SHAKESPEARE, KilnTest, make_weights, run_kiln

HUGE = 1 << 40
# What a message names: a byte of the file, a tensor, an item of a key, or a place in the configuration.
PLACE = re.compile(r"byte \d+: |tensor '|: error: token \d+: |/config\.json:\d+:\d+: |expected a token for each byte|special tokens than those of bytes|expected merges that make each|"
                   r"expected a GGUF file or a model of llm\.c, got |: error: the vocabulary has |got no such key")


class Damaged(KilnTest):
    def setUp(self):
        super().setUp()
        tokens, merges = modelfiles.read_vocabulary(SHAKESPEARE)
        self.config = {**CONFIG, "vocab_size": len(tokens)}
        weights, end = make_weights(self.config), len(tokens) - 1
        self.values = modelfiles.gguf_metadata(self.config, (tokens, merges, end))
        self.tensors = modelfiles.gguf_tensors(weights, "BF16")
        self.gguf = modelfiles.gguf(self.values, self.tensors)
        self.llmc = modelfiles.llmc(self.config, weights, "BF16")
        byte_tokens = [*(modelfiles.token_bytes(token) for token in tokens[:-1]), b"<|endoftext|>"]
        self.tokenizer = modelfiles.llmc_tokenizer(byte_tokens, end)

    def check(self, contents, command="import", may_work=False):
        """Runs the program on a file: an error with a place, or, if the damage may be in data, a result."""
        file = self.write("file", contents)
        options = ("--text", "a b") if command == "tokenize" else ()
        result = run_kiln(command, file, *options)
        if may_work and result.code == 0:
            return
        self.assertEqual((result.code, result.out), (1, b""), result.err)
        self.assertTrue(result.err.startswith(file), result.err)
        self.assertRegex(result.err, PLACE)

    def test_whole(self):
        for command, contents in (("import", self.gguf), ("import", self.llmc), ("tokenize", self.tokenizer)):
            self.kiln(command, self.write("file", contents), *(("--text", "a") if command == "tokenize" else ()))

    def test_cut_at_every_kilobyte(self):
        for command, contents in (("import", self.gguf), ("import", self.llmc), ("tokenize", self.tokenizer)):
            for size in range(0, len(contents), 1024):
                with self.subTest(size=size):
                    # A tokenizer without its first bytes is no tokenizer, but a file without a vocabulary beside it.
                    if command == "import" or size > 0:
                        self.check(contents[:size], command)

    def test_flipped_bytes(self):
        generator = random.Random(1)
        for command, contents in (("import", self.gguf), ("import", self.llmc), ("tokenize", self.tokenizer)):
            places = [*range(4, 40), *(generator.randrange(40, 4000) for _ in range(60)), *(generator.randrange(len(contents)) for _ in range(60))]
            for place in places:
                flipped = bytearray(contents)
                flipped[place] ^= 1 << generator.randrange(8)
                with self.subTest(place=place):
                    self.check(bytes(flipped), command, may_work=True)

    def assert_refused(self, message, contents):
        self.write("file", contents)
        self.assert_fails(message, "import", self.path("file"))

    def test_huge_counts_in_gguf(self):
        def planted(place, value=HUGE):
            return self.gguf[:place] + struct.pack("<Q", value) + self.gguf[place + 8 :]

        def behind(text):
            """The place behind a string of the file."""
            return self.gguf.index(modelfiles.text(text)) + 8 + len(text)

        tokens = behind("tokenizer.ggml.tokens") + 8
        merges = behind("tokenizer.ggml.merges") + 8
        types = behind("tokenizer.ggml.token_type") + 8
        tensor = behind("position_embd.weight")
        for value in (HUGE, (1 << 64) - 1, 1 << 63):
            for message, place in (
                    (f"file: error: byte 8: tensors: expected at most the {len(self.gguf) - 16} bytes that are left of the file, got a count of {value} items", 8),
                    (f"file: error: byte 16: keys: expected at most the {len(self.gguf) - 24} bytes that are left of the file, got a count of {value} items", 16),
                    (f"file: error: byte 24: key: expected at most the {len(self.gguf) - 32} bytes", 24),
                    (f"file: error: byte {tokens}: tokenizer.ggml.tokens: expected at most the {len(self.gguf) - tokens - 8} bytes", tokens),
                    (f"file: error: byte {tokens + 8}: tokenizer.ggml.tokens, item 0: expected at most", tokens + 8),
                    (f"file: error: byte {merges}: tokenizer.ggml.merges: expected at most", merges),
                    (f"file: error: byte {types}: tokenizer.ggml.token_type: expected at most", types)):
                self.assert_refused(message, planted(place, value))
        for message, place in (("file: error: tensor 'position_embd.weight': expected its 52776558133248 bytes within the", tensor + 4),
                               ("file: error: tensor 'position_embd.weight': expected its 70368744177664 bytes within the", tensor + 12),
                               ("file: error: tensor 'position_embd.weight': expected its 1536 bytes within the", tensor + 24)):
            self.assert_refused(message, planted(place))
        both = planted(tensor + 4)
        both = both[: tensor + 12] + struct.pack("<Q", HUGE) + both[tensor + 20 :]
        self.assert_refused("expected a size in bytes that fits in 63 bits, got dimensions [1099511627776,1099511627776]", both)
        self.assert_refused("tensor 'position_embd.weight': expected dimensions that fit in 63 bits, got 18446744073709551615",
                            planted(tensor + 4, (1 << 64) - 1))

    def test_huge_counts_in_llmc(self):
        """The format's numbers have 31 bits; products of them have more."""
        most = struct.pack("<i", (1 << 31) - 1)
        for index in range(2, 8):
            with self.subTest(index=index):
                self.check(self.llmc[: 4 * index] + most + self.llmc[4 * index + 4 :])
        self.check(self.llmc[:8] + most * 6 + self.llmc[32:])
        self.check(self.tokenizer[:8] + most + self.tokenizer[12:], "tokenize")


if __name__ == "__main__":
    unittest.main()
