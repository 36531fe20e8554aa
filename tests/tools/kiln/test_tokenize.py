"""`kiln tokenize` gives the ids of Hugging Face's tokenizers for the embedded model's vocabulary, and refuses bad
vocabularies."""

import json
import os
import shutil
import unittest

from kilntest import SHAKESPEARE, SOURCE, KilnTest, write_model

# Texts and their ids by tokenizers 0.22 (BPE with the byte-level pre-tokenizer, no prefix space).
VECTORS = {
    "don't DON'T 'S we'LL": [67,275,668,826,46,45,6,51,447,50,331,6,43,43],
    "x'rex": [87,6,264,87],
    'a  b': [64,220,268],
    'a   ': [64,220,220,220],
    '\n\nFirst': [198,198,640],
    'First\n\n': [640,198,198],
    '  \n  x': [220,220,198,220,220,87],
    ' \xa0x': [220,126,254,87],
    '\u2177\xbd\u0663': [158,227,115,126,121,149,96],
    '<|endoftext|>': [27,91,458,78,69,83,68,87,83,91,29],
    "it's'd'll've're'm't's": [274,319,345,457,6,294,6,264,6,76,668,319],
    " 's '": [447,82,447],
    "'": [6],
    "''s": [6,6,82],
    "they'veX'll9're_'d": [909,88,6,294,55,457,24,6,264,62,6,67],
    '1234567890 12 a1b2': [16,17,18,19,20,21,22,23,24,15,220,16,17,258,16,65,17],
    ' 1': [220,16],
    '1 ': [16,220],
    '\t\tx\t': [197,197,87,197],
    'a\r\nb\r\n': [64,201,198,65,201,198],
    'a\n \n b': [64,198,220,198,268],
    '   lead': [220,220,996,339],
    'trail   ': [83,351,421,220,220,220],
    '\u2003em\u3000space': [158,222,225,485,159,222,222,82,79,852],
    'zero\u200bwidth\ufeff': [89,272,78,158,222,233,86,359,400,171,119,123],
    '\xe9 e\u0301 \xf1 \xdf \u017f': [127,102,334,136,223,220,127,109,220,127,253,220,129,123],
    '\u65e5\u672c\u8a9e \u30c6\u30b9\u30c8': [162,245,98,162,250,105,164,103,252,220,159,225,228,159,224,117,159,225,230],
    '\U0001f642\U0001f469\u200d\U0001f469\u200d\U0001f467 x': [172,253,247,224,172,253,239,102,158,222,235,172,253,239,102,158,222,235,172,253,239,100,220,87],
    '\u02b0\u01c5\xaa\xba': [134,108,131,227,126,103,126,118],
    '\u0660\U0001d7d8\xb2 \u2177': [149,254,172,251,253,246,126,110,220,158,227,115],
    '!?!?.. --- ...': [0,30,0,30,13,13,220,520,12,220,13,13,13],
    'a_b c-d': [64,62,65,277,12,67],
    "_'s": [62,6,82],
    '\x85x\u1680y\u2028z': [126,227,87,157,248,222,88,158,222,101,89],
    '\x1c\x1fx': [216,219,87],
    '\u180ex': [157,254,236,87],
    '\x7f\x01': [221,189],
    'K\u0130\u0131': [42,128,108,128,109],
    'THE the The tHe': [51,39,36,266,220,352,256,543],
    'ROMEO:\nO, she doth teach the torches to burn bright!': [813,25,198,46,11,512,831,256,383,323,266,256,270,66,257,82,287,268,745,268,341,350,0],
    'abababababababababababababababababababababababababababababababababababababababababababababababababab': [892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892,892],
    'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa': [64,64,64,64,64,64,64,64,64,64,64,64,64,64,64,64,64,64,64,64,64,64,64,64,64,64,64,64,64,64,64],
    '                    x                    ': [220,220,220,220,220,220,220,220,220,220,220,220,220,220,220,220,220,220,220,220,87,220,220,220,220,220,220,220,220,220,220,220,220,220,220,220,220,220,220,220,220],
    '\n\n\n\n\n\n\n\n\n\n': [198,198,198,198,198,198,198,198,198,198],
    '\U0010ffff\ufffd': [176,237,123,123,171,123,121],
}
END_OF_TEXT = 1008
REPLACEMENT = [171, 123, 121]  # U+FFFD


class Tokenize(KilnTest):
    def tokens(self, *arguments, **options):
        return [result["tokens"] for result in self.kiln("tokenize", SHAKESPEARE, "--json", *arguments, **options).objects()]

    def test_vectors_as_arguments(self):
        texts = [argument for text in VECTORS for argument in ("--text", text)]
        self.assertEqual(self.tokens(*texts), list(VECTORS.values()))

    def test_vectors_as_files(self):
        for text, ids in VECTORS.items():
            file = self.write("text", text)
            self.assertEqual(self.tokens("--file", file), [ids])

    def test_standard_input(self):
        self.assertEqual(self.tokens("--file", "-", stdin=b"a  b"), [VECTORS["a  b"]])
        self.assertEqual(self.tokens("--file", "-", stdin=b""), [[]])
        self.assertEqual(self.tokens("--file", "-", stdin=b"a\0b"), [[64, 188, 65]])

    def test_texts_before_files(self):
        self.assertEqual(self.tokens("--file", self.write("text", "a  b"), "--text", "x'rex"), [VECTORS["x'rex"], VECTORS["a  b"]])

    def test_arguments_that_look_like_something_else(self):
        texts = ["", "-", "--", "-x", "--json", "[a,b]", "a,b", "{}", "$HOME", "%s", "a=", "\\n"]
        wanted = [self.tokens("--file", "-", stdin=text.encode())[0] for text in texts]
        self.assertEqual(self.tokens(*[f"--text={text}" for text in texts]), wanted)

    def test_special_tokens_only_when_asked_for(self):
        text = "<|endoftext|>x<|endoftext|><|endoftext"
        ordinary = VECTORS["<|endoftext|>"]
        self.assertEqual(self.tokens("--text", text), [ordinary[:-1] + [*ordinary[-1:], 87] + ordinary + ordinary[:-2]])
        self.assertEqual(self.tokens("--text", text, "--special"), [[END_OF_TEXT, 87, END_OF_TEXT] + ordinary[:-2]])

    def test_invalid_utf8(self):
        """Each maximal part of a broken sequence becomes U+FFFD, as in Python's decode(errors="replace")."""
        for text in (b"a\xff\xfeb\xe2\x82", b"\xf0\x9f\x98a", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\x80", b"\xe2\x28\xa1"):
            (ids,) = self.tokens("--file", self.write("text", text))
            self.assertEqual([ids], self.tokens("--file", "-", stdin=text.decode(errors="replace").encode()))
            self.assertEqual(self.tokens("--text", text)[0], ids)
        self.assertEqual(self.tokens("--file", "-", stdin=b"\xff"), [REPLACEMENT])

    def test_plain_output(self):
        result = self.kiln("tokenize", SHAKESPEARE, "--text", "a  b", "--text", "")
        self.assertEqual((result.out, result.err), (b"64 220 268\n\n", ""))

    def test_a_round_trip_through_the_model(self):
        """The ids of a text, given as a prompt, are echoed as the text."""
        for text in VECTORS:
            out = self.kiln("run", SHAKESPEARE, f"--prompt={text}", "--max-new-tokens", 0, "--quiet").out
            self.assertEqual(out.decode(), text + "\n")

    def test_errors(self):
        self.assert_fails("error: no text: give --text or --file", "tokenize", SHAKESPEARE, code=2)
        self.assert_fails("none: error: cannot read: No such file", "tokenize", SHAKESPEARE, "--file", self.path("none"))
        self.assert_fails("error: cannot read: is a directory", "tokenize", SHAKESPEARE, "--file", self.folder)
        self.assert_fails("expected vocab.json and merges.txt, tokenizer.json, or gpt2_tokenizer.bin, got none of them", "tokenize", self.folder,
                          "--text", "a")

    @unittest.skipUnless("KILN_GPT2_VOCAB" in os.environ, "KILN_GPT2_VOCAB does not name a folder with GPT-2's vocabulary")
    def test_gpt2(self):
        for text, ids in (("don't DON'T 'S we'LL", [9099, 470, 23917, 6, 51, 705, 50, 356, 6, 3069]), ("x'rex", [87, 821, 87]),
                          ("a  b", [64, 220, 275]), ("a   ", [64, 220, 220, 220]), ("\n\nFirst", [198, 198, 5962]),
                          ("First\n\n", [5962, 628]), ("  \n  x", [220, 220, 198, 220, 2124]), (" \u00a0x", [220, 1849, 87]),
                          ("ⅷ½٣", [158, 227, 115, 23141, 149, 96]), ("<|endoftext|>", [27, 91, 437, 1659, 5239, 91, 29])):
            (result,) = self.kiln("tokenize", os.environ["KILN_GPT2_VOCAB"], "--json", "--text", text).objects()
            self.assertEqual(result["tokens"], ids)


class BadVocabularies(KilnTest):
    def setUp(self):
        super().setUp()
        for name in ("vocab.json", "merges.txt"):
            shutil.copy(os.path.join(SHAKESPEARE, name), self.folder)
        with open(self.path("vocab.json")) as file:
            self.vocabulary = json.load(file)
        with open(self.path("merges.txt")) as file:
            self.merges = file.read()

    def assert_refused(self, message, **files):
        for name, contents in files.items():
            self.write({"vocabulary": "vocab.json", "merges": "merges.txt"}[name],
                       contents if isinstance(contents, (str, bytes)) else json.dumps(contents))
        self.assert_fails(message, "tokenize", self.folder, "--text", "abc")

    def test_vocabularies(self):
        for message, vocabulary in (
                ("vocab.json:1:1: error: not valid JSON", ""), ("vocab.json:1:1: error: expected a JSON object", "[]"),
                ("vocab.json:1:2: error: not valid JSON", "{"),
                ("vocab.json:1:7: error: '!': expected an integer", {"!": "0"}),
                ("vocab.json:1:2: error: '!': expected an id in 0..0, since there are 1 tokens, got -1", {"!": -1}),
                ("vocab.json:1:2: error: '!': expected an id in 0..0, since there are 1 tokens, got 1099511627776", {"!": 2**40}),
                ("expected an id in 0..1007, since there are 1008 tokens, got 1008",
                 {key: value for key, value in self.vocabulary.items() if value != 64}),
                ("vocab.json:", {**self.vocabulary, "a": 65})):
            with self.subTest(message=message):
                self.assert_refused(message, vocabulary=vocabulary)

    def test_merges(self):
        lines = self.merges.splitlines()
        for number, line in ((2, "a"), (3, "a b c"), (4, ""), (5, "a  b"), (6, " a b"), (7, "zzz qqq")):
            with self.subTest(line=line):
                changed = lines[: number - 1] + [line] + lines[number:]
                self.assert_refused(f"merges.txt:{number}:", merges="\n".join(changed) + "\n")
        self.assert_refused(f"merges.txt:{len(lines) + 1}:", merges=self.merges + lines[-1] + "\n")

    def test_missing_files(self):
        os.remove(self.path("merges.txt"))
        self.assert_fails("got no merges.txt", "tokenize", self.folder, "--text", "a")
        os.remove(self.path("vocab.json"))
        self.write("merges.txt", self.merges)
        self.assert_fails("got no vocab.json", "tokenize", self.folder, "--text", "a")

    def test_a_vocabulary_that_is_larger_than_the_model(self):
        write_model(self.folder)
        self.assert_fails("error: the vocabulary has 1009 tokens, the model only 29", "run", self.folder, "--prompt", "a",
                          "--max-new-tokens", 1)


if __name__ == "__main__":
    unittest.main()
