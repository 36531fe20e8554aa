"""kiln import and kiln export: models in other formats and back, without the change of a bit."""

import json
import os
import shutil
import struct
import sys
import unittest

import modelfiles
from kilntest import CONFIG, SHAKESPEARE, KilnTest, make_weights, pack, run_kiln, safetensors, write_model

try:
    import gguf
except ImportError:
    gguf = None
# Hugging Face's files, with a vocabulary, an end of text, and a size that llm.c pads.
GPT2 = {**CONFIG, "vocab_size": 1009, "eos_token_id": 1008}


def read_safetensors(path):
    """(dtype, shape, bytes) by name."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack_from("<Q", data)[0]
    header, buffer = json.loads(data[8 : 8 + size]), data[8 + size :]
    header.pop("__metadata__")
    return {name: (entry["dtype"], entry["shape"], buffer[slice(*entry["data_offsets"])]) for name, entry in header.items()}


class Convert(KilnTest):
    def model(self, config=GPT2, dtype="F32", name="model"):
        folder = write_model(self.path(name), config, dtype)
        for file in ("vocab.json", "merges.txt"):
            shutil.copy(os.path.join(SHAKESPEARE, file), folder)
        return folder

    def export(self, model, form, name):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        result = self.kiln("export", model, "--format", form, "-o", self.path(name))
        self.assertEqual((result.out, result.err), (b"", ""))
        return self.path(name)

    def read(self, *parts):
        with open(self.path(*parts), "rb") as file:
            return file.read()

    def assert_same_weights(self, imported, model):
        self.assertEqual(read_safetensors(os.path.join(imported, "model.safetensors")),
                         read_safetensors(os.path.join(model, "model.safetensors")))

    def assert_same_model(self, imported, model):
        """Weights to the bit, vocabulary and results."""
        self.assert_same_weights(imported, model)
        text = "ROMEO: What's in a name?\n\n  <|endoftext|>\u00e9"
        for options in ((), ("--special",)):
            ids = [self.kiln("tokenize", folder, "--text", text, *options).out for folder in (imported, model)]
            self.assertEqual(*ids)
        texts = [self.kiln("run", folder, "--prompt", "ROMEO:", "--greedy", "--max-new-tokens", 4, "--device", "cpu", "--quiet").out
                 for folder in (imported, model)]
        self.assertEqual(*texts)

    def test_round_trips(self):
        for form, dtypes in (("gguf", ("F32", "F16", "BF16")), ("llmc", ("F32", "BF16"))):
            for dtype in dtypes:
                with self.subTest(form=form, dtype=dtype):
                    model = self.model(dtype=dtype, name=f"models/{dtype}")
                    file = self.export(model, form, f"{form}-{dtype}/file")
                    imported = self.path(f"imported/{dtype}")
                    self.kiln("import", file, "-o", imported)
                    self.assert_same_model(imported, model)
                    # Written once more, from the result or from the file itself, the file is the same.
                    self.assertEqual(self.read(self.export(imported, form, "again/file")), self.read(file))
                    shutil.copy(file, self.path("again", dtype))
                    self.assertEqual(self.read(self.export(self.path("again", dtype), form, "again/file")), self.read(file))

    def test_a_link_to_the_model_itself(self):
        """The file is read while it is written: what was read stays until all of it is there."""
        for form in ("gguf", "llmc"):
            file = self.export(self.model(), form, f"{form}/file")
            wanted = self.read(self.export(file, form, f"again/{form}"))
            os.symlink("file", self.path(form, "link"))
            for name in ("link", "file"):
                self.kiln("export", file, "--format", form, "-o", self.path(form, name))
                self.assertEqual(self.read(file), wanted)
            self.assertTrue(os.path.islink(self.path(form, "link")))
            self.assertEqual([name for name in os.listdir(self.path(form)) if ".tmp-" in name], [])

    def test_a_head_of_its_own(self):
        model = self.model({**GPT2, "tie_word_embeddings": False})
        self.kiln("import", self.export(model, "gguf", "untied.gguf"), "-o", self.path("imported"))
        self.assert_same_model(self.path("imported"), model)

    def test_files_that_others_wrote(self):
        model = self.model()
        weights, tokens = make_weights(GPT2), modelfiles.read_vocabulary(SHAKESPEARE)
        self.write("a/model.bin", modelfiles.llmc(GPT2, weights))
        byte_tokens = [b"<|endoftext|>" if i == 1008 else modelfiles.token_bytes(token) for i, token in enumerate(tokens[0])]
        self.write("a/gpt2_tokenizer.bin", modelfiles.llmc_tokenizer(byte_tokens, 1008))
        values = modelfiles.gguf_metadata(GPT2, (*tokens, 1008))
        self.write("a/model.gguf", modelfiles.gguf(values, modelfiles.gguf_tensors(weights)))
        for name in ("model.bin", "model.gguf"):
            self.kiln("import", self.path("a", name), "-o", self.path("imported"))
            self.assert_same_model(self.path("imported"), model)

    def test_blocks_of_eight_bits_become_f32(self):
        weights = make_weights(CONFIG)
        self.write("q8.gguf", modelfiles.gguf(modelfiles.gguf_metadata(CONFIG), modelfiles.gguf_tensors(weights, "Q8_0")))
        self.kiln("import", self.path("q8.gguf"), "-o", self.path("imported"))
        imported = read_safetensors(self.path("imported", "model.safetensors"))
        for name, tensor in weights.items():
            shape, values = modelfiles.stored(name, tensor)
            if len(shape) == 2:
                values = modelfiles.unpack_q8(modelfiles.pack_q8(values))
                shape, values = modelfiles.transposed(shape, values) if modelfiles.is_matrix(name) else (shape, values)
            self.assertEqual(imported["transformer." + name], ("F32", shape, pack(values, "F32")), name)

    def test_the_files_of_an_import(self):
        file = self.export(self.model(), "llmc", "file/model.bin")
        shown = self.kiln("import", file).out.decode()
        parameters = sum(len(values) for _, values in make_weights(GPT2).values())
        self.assertEqual(shown.replace(self.folder + "/", ""),
                         "file        file/model.bin\n"
                         "format      llm.c, version 3, fp32\n"
                         "model       2 layers, 2 heads of 16, 32 channels, 24 positions\n"
                         "logits      1009, by the embedding of tokens\n"
                         f"tensors     28 (28 F32), {parameters} parameters, {4 * parameters} bytes\n"
                         "vocabulary  1009 tokens, 752 merges, special: <|endoftext|>\n")
        self.assertEqual(self.kiln("import", file, "-o", self.path("imported")).out.decode(), shown)
        self.assertEqual(sorted(os.listdir(self.path("imported"))), ["config.json", "merges.txt", "model.safetensors", "vocab.json"])
        config = json.loads(self.read("imported", "config.json"))
        for key in GPT2:
            self.assertEqual(config[key], GPT2[key], key)
        self.assertEqual(self.read("imported", "merges.txt").split(b"\n", 1)[1].split(),
                         self.read("model", "merges.txt").split(b"\n", 1)[1].split())
        self.assertEqual(json.loads(self.read("imported", "vocab.json")), json.loads(self.read("model", "vocab.json")))

    def test_further_special_tokens(self):
        config = {**GPT2, "vocab_size": 1020}
        model = self.model(config)
        self.write("model/added_tokens.json", '{"<pad>": 1009, "<|user|>": 1010}')
        file = self.export(model, "gguf", "model.gguf")
        values = modelfiles.read_gguf(self.read("model.gguf"))[0]
        self.assertEqual(values["tokenizer.ggml.tokens"][1008:], ["<|endoftext|>", "<pad>", "<|user|>", *(f"[PAD{i}]" for i in range(1011, 1020))])
        self.assertEqual(values["tokenizer.ggml.token_type"][1007:], [1, 3, 3, 3] + [5] * 9)
        self.kiln("import", file, "-o", self.path("imported"))
        self.assertEqual(json.loads(self.read("imported/added_tokens.json")), {"<pad>": 1009, "<|user|>": 1010})
        self.assert_same_model(self.path("imported"), model)

    def test_gguf_as_ggml_wants_it(self):
        for dtype in ("F32", "F16", "BF16"):
            self.export(self.model(dtype=dtype, name=f"model-{dtype}"), "gguf", f"{dtype}.gguf")
            values, tensors = modelfiles.read_gguf(self.read(f"{dtype}.gguf"))
            tokens, merges = modelfiles.read_vocabulary(SHAKESPEARE)
            for key, (_, value) in modelfiles.gguf_metadata(GPT2, (tokens, merges, 1008)).items():
                self.assertEqual(values[key], struct.unpack("<f", struct.pack("<f", value))[0] if isinstance(value, float) else
                                 value[1] if isinstance(value, tuple) else value, key)
            wanted = modelfiles.gguf_tensors(make_weights(GPT2), dtype)
            wanted["position_embd.weight"] = ("F32", [24, 32], pack(make_weights(GPT2)["wpe.weight"][1], "F32"))
            self.assertEqual(tensors, {name: (modelfiles.TENSOR_TYPES[kind], shape, data) for name, (kind, shape, data) in wanted.items()})

    def test_llmc_as_its_program_wants_it(self):
        for dtype in ("F32", "BF16"):
            model = self.model(dtype=dtype, name=f"model-{dtype}")
            self.export(model, "llmc", "file/model.bin")
            self.assertEqual(self.read("file/model.bin"), modelfiles.llmc(GPT2, make_weights(GPT2), dtype))
        tokens = modelfiles.read_vocabulary(SHAKESPEARE)[0]
        self.assertEqual(self.read("file/gpt2_tokenizer.bin"),
                         modelfiles.llmc_tokenizer([modelfiles.token_bytes(token) for token in tokens[:1008]] + [b"<|endoftext|>"], 1008))
        # F16 has a wider type only.
        self.export(self.model(dtype="F16", name="model-F16"), "llmc", "file/model.bin")
        self.assertEqual(self.read("file/model.bin"), modelfiles.llmc(GPT2, make_weights(GPT2), "F32"))

    @unittest.skipIf(gguf is None, "the package gguf is not installed")
    def test_the_package_gguf_reads_and_writes_the_same(self):
        for dtype in ("F32", "F16", "BF16"):
            file = self.export(self.model(dtype=dtype, name=f"model-{dtype}"), "gguf", f"{dtype}.gguf")
            reader = gguf.GGUFReader(file)
            _, tensors = modelfiles.read_gguf(self.read(f"{dtype}.gguf"))
            self.assertEqual({tensor.name: tensor.data.tobytes() for tensor in reader.tensors}, {name: data for name, (_, _, data) in tensors.items()})
            self.assertEqual({tensor.name: [int(extent) for extent in tensor.shape] for tensor in reader.tensors},
                             {name: shape[::-1] for name, (_, shape, _) in tensors.items()})
            self.assertEqual(reader.get_field("gpt2.block_count").contents(), 2)
            self.assertEqual(reader.get_field("tokenizer.ggml.tokens").contents(), modelfiles.read_vocabulary(SHAKESPEARE)[0])
        for dtype, kind in (("F32", gguf.GGMLQuantizationType.F32), ("Q8_0", gguf.GGMLQuantizationType.Q8_0)):
            self.check_file_of_package(dtype, kind)

    def check_file_of_package(self, dtype, kind):
        import numpy

        weights = make_weights(CONFIG)
        writer = gguf.GGUFWriter(self.path("package.gguf"), "gpt2")
        writer.add_context_length(24), writer.add_embedding_length(32), writer.add_feed_forward_length(128)
        writer.add_block_count(2), writer.add_head_count(2), writer.add_layer_norm_eps(1e-5)
        for name, tensor in weights.items():
            shape, values = modelfiles.stored(name, tensor)
            array = numpy.array(values, dtype=numpy.float32).reshape(shape)
            quantized = gguf.quants.quantize(array, kind) if len(shape) == 2 else array
            writer.add_tensor(modelfiles.gguf_name(name), quantized, raw_dtype=kind if len(shape) == 2 else None)
        writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file(), writer.close()
        self.kiln("import", self.path("package.gguf"), "-o", self.path("imported"))
        imported = read_safetensors(self.path("imported", "model.safetensors"))
        for name, tensor in weights.items():
            shape, values = modelfiles.stored(name, tensor)
            array = numpy.array(values, dtype=numpy.float32).reshape(shape)
            if len(shape) == 2:
                array = gguf.quants.dequantize(gguf.quants.quantize(array, kind), kind).reshape(shape)
            array = array.T if modelfiles.is_matrix(name) else array
            self.assertEqual(imported["transformer." + name], ("F32", list(array.shape), array.tobytes()), (dtype, name))

    def test_models_that_a_format_cannot_describe(self):
        for message, form, changes in (
                ('activation_function: expected "gelu_new", got another, which GGUF cannot describe', "gguf", {"activation_function": "relu"}),
                ('activation_function: expected "gelu_new", got another', "llmc", {"activation_function": "gelu"}),
                ("scale_attn_weights: expected true, got false", "gguf", {"scale_attn_weights": False}),
                ("scale_attn_by_inverse_layer_idx: expected false", "llmc", {"scale_attn_by_inverse_layer_idx": True}),
                ("tie_word_embeddings: expected true, got false, which llm.c's format cannot", "llmc", {"tie_word_embeddings": False}),
                ("n_inner: expected 4 * n_embd (128), got 64", "llmc", {"n_inner": 64}),
                ("layer_norm_epsilon: expected 1e-05, got another", "llmc", {"layer_norm_epsilon": 1e-6})):
            with self.subTest(message=message):
                model = self.model({**GPT2, **changes})
                self.assert_fails("model/config.json:", "export", model, "--format", form, "-o", self.path("file"))
                self.assert_fails(message, "export", model, "--format", form, "-o", self.path("file"))

    def test_nothing_is_half_written(self):
        model = self.model()
        file = self.export(model, "gguf", "model.gguf")
        self.write("own/notes.txt", "mine")
        self.assert_fails("own: error: cannot write: expected a new or empty directory or an earlier result", "import", file, "-o", self.path("own"))
        self.write("other/gpt2_tokenizer.bin", "another")
        self.assert_fails("other/gpt2_tokenizer.bin: error: cannot write: expected no file or the same tokenizer", "export", model,
                          "--format", "llmc", "-o", self.path("other/model.bin"))
        self.assert_fails("nowhere/model.gguf: error: cannot write: No such file or directory", "export", model, "--format", "gguf", "-o",
                          self.path("nowhere/model.gguf"))
        self.write("model/vocab.json", "{")
        self.assert_fails("model/vocab.json:1:", "export", model, "--format", "gguf", "-o", self.path("new.gguf"))

    @unittest.skipIf(sys.platform != "linux", "needs a full device")
    def test_a_full_disk(self):
        model = self.model()
        result = run_kiln("export", model, "--format", "gguf", "-o", "/dev/full")
        self.assertEqual((result.code, result.err), (1, "/dev/full: error: cannot write: No space left on device\n"))

    def test_usage(self):
        model = self.model()
        self.assert_fails("FILE: model is a directory; expected a GGUF file", "import", model, code=2)
        self.assert_fails("--format: expected gguf or llmc, got 'onnx'", "export", model, "--format", "onnx", "-o", self.path("x"), code=2)
        toml = self.write("tiny.toml", "vocab_size = 8\n")
        self.assert_fails("tiny.toml: error: expected a model with weights", "export", toml, "--format", "gguf", "-o", self.path("x"))


if __name__ == "__main__":
    unittest.main()
