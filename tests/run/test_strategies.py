"""Strategies change how a model is computed, but not the result: the reference executor gives the same text, and
kernels agree with it step by step."""

import json
import os
import re
import unittest

from kilntest import SHAKESPEARE, SOURCE, KilnTest, ids, write_model

with open(os.path.join(SOURCE, "tests", "data", "shakespeare-5m", "oracle.json")) as file:
    ORACLE = json.load(file)

DEVICE = os.environ.get("KILN_DEVICE", "emulate")

# Together they use every kernel and every pass that a strategy can choose.
REFERENCE = ("attention=unfused", "fusion=off", "fusion=epilogue{residual=0}", "fusion=norm", "layernorm=best",
             "attention=unfused,fusion=off", "kv_cache=off")
KERNELS = ("matmul=naive,attention=naive{threads=64},layernorm=1,softmax=thread,parameters=constant",
           "matmul=tiled{tile_rows=32,tile_cols=32},attention=unfused,softmax=thread,layernorm=1,fusion=off",
           "attention=flash_simt{tile_queries=16,tile_keys=16},layernorm=4,elementwise=map{threads=64,unroll=4},restrict=on",
           "attention=unfused,softmax=block{threads=64},layernorm=5{threads=64}",
           "attention=reduction{threads=32},layernorm=2,parameters=constant{biases=1}", "attention=flash_naive",
           "attention=cublas", "precision=bf16,attention=cublas",
           *(f"attention=triangular{{rung={rung}}}" for rung in (1, 2, 3, 4)), "precision=bf16,attention=triangular",
           "precision=tf32,attention=tensor{warps=1},matmul=wmma", "precision=bf16,attention=tensor",
           "attention=windowed{w=5}", "precision=bf16,attention=windowed{w=5}",
           "precision=bf16,matmul=split_k{splits=2},attention=flash_tensor,layernorm=best,parameters=constant{biases=1}",
           "precision=bf16,matmul=tensor",
           "precision=f16,matmul=wgmma{tile_m=128,tile_n=32,consumers=2,teams=1},fusion=epilogue",
           "precision=bf16,matmul=wgmma{tile_m=64,tile_n=64,consumers=1,teams=1,cluster_m=2,parts=2,stages=2}",
           "precision=bf16,attention=flash_hopper", "precision=f16,attention=flash_hopper{tile_queries=64,tile_keys=128}")


class Strategies(KilnTest):
    def test_same_text_on_the_reference_executor(self):
        prompt = ORACLE["prompts"][0]
        for strategy in REFERENCE:
            with self.subTest(strategy=strategy):
                (result,) = self.run_json(SHAKESPEARE, "--tokens", ids(prompt["ids"]), "--greedy", "--max-new-tokens", 8,
                                          "--strategy", strategy)
                self.assertEqual(result["tokens"], prompt["greedy_ids"][len(prompt["ids"]) :][:8])

    def test_a_window_is_another_model_once_there_are_more_tokens(self):
        prompt = ORACLE["prompts"][0]
        length = len(prompt["ids"])
        for window, same in ((length + 8, True), (2, False)):
            (result,) = self.run_json(SHAKESPEARE, "--tokens", ids(prompt["ids"]), "--greedy", "--max-new-tokens", 8,
                                      "--strategy", f"attention=windowed{{w={window}}}")
            self.assertEqual(result["tokens"] == prompt["greedy_ids"][length:][:8], same)

    def test_without_graphs_and_without_a_cache(self):
        model = write_model(self.path("model"))
        run = [model, "--tokens", "1,2,3", "--tokens", "4,5", "--greedy", "--max-new-tokens", 5]
        expected = [result["tokens"] for result in self.run_json(*run, device=DEVICE)]
        for strategy in ("kv_cache=off", "graphs=off", "copies=first", "parameters=constant{biases=1}"):
            results = self.run_json(*run, "--strategy", strategy, device=DEVICE)
            self.assertEqual([result["tokens"] for result in results], expected, strategy)

    def test_an_edited_kernel_without_its_constants_is_refused(self):
        plan, model = self.path("plan"), write_model(self.path("model"))
        self.kiln("compile", model, "--stage", "cuda", "--quiet", "-o", plan, "--strategy", "parameters=constant{biases=1}")
        (kernel,) = [name for name in os.listdir(os.path.join(plan, "kernels"))
                     if re.match(r"layernorm_matmul_bias_gelu__f32__n\d+_k\d+\.cu", name)]
        with open(os.path.join(plan, "kernels", kernel)) as file:
            source = file.read()
        width = int(re.search(r"__constant__ float ln_2_b\[(\d+)\]", source).group(1))
        for edited in (source.replace(f"ln_2_b[{width}]", "ln_2_b[1]"), source.replace("ln_2_b", "beta")):
            self.write(os.path.join("edited", kernel), edited)
            self.assert_fails(f"error: kernel {kernel[:-3]}: expected an array 'ln_2_b' of {4 * width} bytes in constant memory, "
                              "found none", "run", plan, "--weights", model, "--tokens", "1,2", "--max-new-tokens", 1,
                              "--quiet", "--device", DEVICE, "--kernels-from", self.path("edited"))

    def test_every_step_of_the_kernels(self):
        config = {"model_type": "gpt2", "vocab_size": 29, "n_positions": 24, "n_embd": 128, "n_layer": 1, "n_head": 2}
        model = write_model(self.path("model"), config)
        for strategy in KERNELS:
            with self.subTest(strategy=strategy):
                result = self.kiln("run", model, "--tokens", "1,2,3,4,5,6,7,8,9,10,11", "--greedy", "--max-new-tokens", 2,
                                   "--device", DEVICE, "--check", "reference", "--strategy", strategy)
                self.assertIn("steps agree with the reference executor", result.err)


if __name__ == "__main__":
    unittest.main()
