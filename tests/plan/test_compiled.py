"""The reader can prove every plan sound that the compiler writes: kiln compile reads what it has written."""

import os
import shutil
import unittest
from concurrent.futures import ThreadPoolExecutor

from kilntest import SOURCE, KilnTest, run_kiln

# Extents that no tile size divides.
ODD_MODEL = "vocab_size = 997\nn_positions = 300\nn_embd = 264\nn_layer = 1\nn_head = 3\n"
DTYPES = ("f32", "tf32", "f16", "bf16")
STRATEGIES = ("matmul=naive", "matmul=tiled", "matmul=cublaslt", "attention=naive", "attention=unfused,softmax=warp",
              "attention=reduction", "attention=cublas", "attention=triangular", "attention=flash_naive", "attention=windowed{w=7}",
              "attention=flash_simt", "layernorm=2", "layernorm=best", "fusion=off", "fusion=epilogue", "fusion=norm", "kv_cache=off",
              "parameters=constant", "precision=bf16,matmul=tensor", "precision=bf16,attention=flash_tensor",
              "precision=tf32,matmul=wmma")


class CompiledPlans(KilnTest):
    def assert_all_compile(self, cases):
        """`cases`: the options of kiln compile for each, the model first."""

        def compile(case):
            number, options = case
            plan = self.path(f"{number}.plan")
            result = run_kiln("compile", *options, "--stage", "cuda", "--quiet", "-o", plan)
            shutil.rmtree(plan, ignore_errors=True)
            return result

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(compile, enumerate(cases)))
        for options, result in zip(cases, results):
            with self.subTest(options=options):
                self.assertEqual(result.code, 0, result.err)

    def test_every_batch(self):
        model = self.write("odd.toml", ODD_MODEL)
        batches = [*range(1, 65), 100, 127, 255, 1000, 4096]
        self.assert_all_compile([(model, "--max-batch", batch, "--dtype", DTYPES[batch % 4]) for batch in batches])

    def test_every_strategy(self):
        model = self.write("odd.toml", ODD_MODEL)
        self.assert_all_compile([(model, "--max-batch", batch, "--strategy", strategy) for strategy in STRATEGIES for batch in (3, 64)])

    def test_verification(self):
        model = self.write("odd.toml", ODD_MODEL)
        self.assert_all_compile([(model, "--max-batch", batch, "--dtype", DTYPES[batch % 4], "--draft-tokens", guesses)
                                 for batch in (1, 2, 3, 64) for guesses in (1, 4, 11)])
        self.assert_all_compile([(model, "--max-batch", 3, "--draft-tokens", 4, "--strategy", strategy)
                                 for strategy in STRATEGIES if strategy != "kv_cache=off"])

    def test_scratch_that_does_not_scale_with_the_batch(self):
        """Its parts of the depth are for tiles with the rows of all sequences together."""
        model = self.write("odd.toml", ODD_MODEL)
        self.assert_all_compile([(model, "--max-batch", batch, "--strategy", "precision=bf16,matmul=split_k{splits=2}")
                                 for batch in (1, 2, 3)])

    def test_every_model(self):
        graphs = os.path.join(SOURCE, "graphs")
        models = [name for name in sorted(os.listdir(graphs)) if name.endswith(".toml")] + ["shakespeare-5m"]
        self.assertEqual(len(models), 5)
        self.assert_all_compile([(os.path.join(graphs, name), "--max-batch", batch, "--dtype", dtype)
                                 for name, batch, dtype in zip(models, (64, 7, 1, 64, 7), ("bf16", "f32", "f16", "f32", "bf16"))])


if __name__ == "__main__":
    unittest.main()
