"""kiln.compile and kiln.Plan."""
import json
import os
import re
import tempfile
import unittest

import kiln
from kilntest import CONFIG, ONE_KERNEL, SHAKESPEARE, TINY_MODEL, KilnTest, snapshot, write_model

BIG = "layernorm_matmul_bias_gelu__f32__n1024_k256"


class PlanTest(KilnTest):
    def test_plans_are_those_of_kiln_compile(self):
        model = write_model(self.path("model"), CONFIG)
        self.kiln("compile", model, "-o", self.path("expected"), "--stage", "cuda", "--quiet", "--max-batch", 4)
        plan = kiln.compile(model, self.path("got"), cubins=False, max_batch=4)
        self.assertEqual(snapshot(self.path("got")), snapshot(self.path("expected")))
        self.assertEqual(plan.dims, {"B": (1, 4), "T": (1, 24)})
        self.assertEqual((plan.context_length, plan.vocabulary_size, plan.layers), (24, 29, 2))
        self.assertEqual((plan.target, plan.targets, plan.dtype), ("sm_90a", (), "f32"))

    def test_a_plan_without_a_directory_lives_as_long_as_it_is_used(self):
        plan = kiln.compile(self.write("tiny.toml", TINY_MODEL), cubins=False)
        path = os.fspath(plan)
        model = kiln.open(plan, device="cpu", random_weights=1)
        del plan
        self.assertEqual(model.logits([1]).shape, (31,))
        self.assertTrue(os.path.exists(path))
        del model
        self.assertFalse(os.path.exists(path))

    def test_kernels_have_their_cuda_and_what_it_computes(self):
        plan = kiln.compile(SHAKESPEARE, self.path("plan"), cubins=False)
        files = {name.removesuffix(".cu") for name in os.listdir(self.path("plan", "kernels"))}
        self.assertEqual({kernel.name for kernel in plan.kernels}, files)
        kernel = plan.kernel(BIG)
        with open(self.path("plan", "kernels", f"{BIG}.cu"), encoding="utf-8") as file:
            self.assertEqual(kernel.cuda, file.read())
        self.assertEqual((kernel.title, kernel.family), ("layernorm_matmul_bias_gelu", "gemm_simt"))
        self.assertEqual(kernel.computes.splitlines()[2:],
                         ["%fc = add %fc_mm, %fc_b", "%act = gelu %fc {approx = tanh}"])
        lines = kernel.cuda.splitlines()
        self.assertEqual([str(op) for op in kernel.ops], kernel.computes.splitlines())
        for op in kernel.ops[2:]:  # those of the epilogue
            self.assertTrue(any(f"auto {op.value} = " in lines[line - 1] for line in op.lines), op)
        with self.assertRaises(KeyError):
            plan.kernel("none")

    def test_cubins_have_resources_and_progress(self):
        told = []
        plan = kiln.compile(self.write("small.kiln", ONE_KERNEL.format("tanh")), targets=["sm_80", "sm_90a"],
                            cache=False, on_progress=lambda *one: told.append(one))
        self.assertEqual(plan.targets, ("sm_80", "sm_90a"))
        self.assertEqual([(done, most) for done, most, _ in told], [(1, 2), (2, 2)])
        (kernel,) = plan.kernels
        self.assertEqual(set(kernel.resources), {"sm_80", "sm_90a"})
        self.assertGreater(kernel.resources["sm_80"].registers, 0)

        def fail(*_):
            raise LookupError("of the callback")

        before = set(os.listdir(tempfile.gettempdir()))
        with self.assertRaisesRegex(LookupError, "of the callback"):
            kiln.compile(self.path("small.kiln"), cache=False, on_progress=fail)
        left = set(os.listdir(tempfile.gettempdir())) - before
        self.assertFalse([name for name in left if name.startswith("kiln-plan-")])

    def test_entries_have_their_steps_and_costs(self):
        plan = kiln.compile(SHAKESPEARE, self.path("plan"), cubins=False)
        self.assertEqual([entry.name for entry in plan.entries][:3], ["prefill", "score", "decode"])
        prefill = plan.entry("@prefill")
        self.assertEqual(str(prefill.arguments[0]), "%tokens : i32[B,T]")
        big = [step for step in prefill.steps if step.launch.kernel == BIG]
        self.assertTrue(big)
        self.assertIn("B*T", big[0].flops)
        self.assertEqual(big[0].launch.threads, 128)
        cost = prefill.cost.kernels[BIG]
        self.assertEqual(cost.launches, len(big))
        self.assertGreater(cost.limit_seconds, 0)
        self.assertIsNone(cost.seconds)
        self.assertEqual(prefill.cost.label, "@prefill, B = 1, T = 64")
        more = plan.costs(batch=4, length=128)["prefill"]
        self.assertEqual((more.dims["B"], more.dims["T"]), (4, 128))
        self.assertEqual(more.kernels[BIG].flops, 8 * cost.flops)
        with self.assertRaisesRegex(ValueError, "batch: expected 1 or more"):
            plan.costs(batch=0)
        with self.assertRaises(kiln.Error):
            plan.costs(length=5000)

    def test_a_profile_gives_measured_times(self):
        plan = kiln.compile(SHAKESPEARE, self.path("plan"), cubins=False)
        with open(self.path("plan", "plan.toml"), encoding="utf-8") as file:
            source_hash = re.search('source_hash = "(.*)"', file.read())[1]
        row = {"what": BIG, "function": "prefill", "batch": 2, "length": 100, "launches": 5, "median_us": 12.5}
        profile = {"device": "GPU", "source_hash": source_hash, "rows": [row]}
        call = plan.costs(profile=self.write("times.json", json.dumps(profile)))["prefill"]
        self.assertEqual((call.dims["B"], call.dims["T"]), (2, 100))  # those of the profile
        self.assertAlmostEqual(call.kernels[BIG].seconds, 12.5e-6)
        self.assertIsNone(call.total.seconds)  # other kernels have none
        profile["source_hash"] = "0"
        with self.assertRaisesRegex(kiln.Error, "times.json:.*a profile of another plan"):
            plan.costs(profile=self.write("times.json", json.dumps(profile)))

    def test_the_ir_of_every_stage(self):
        plan = kiln.compile(SHAKESPEARE, self.path("plan"), cubins=False)
        for stage in ("graph", "fused", "plan"):
            with open(self.path("plan", "ir", f"{stage}.kiln"), encoding="utf-8") as file:
                self.assertEqual(plan.ir(stage), file.read())
            self.assertEqual(str(plan.module(stage)), plan.ir(stage))
        with self.assertRaisesRegex(ValueError, "stage: expected graph"):
            plan.ir("cuda")

    def test_errors_leave_nothing(self):
        model = self.write("tiny.toml", TINY_MODEL.replace("n_head = 1", "n_head = 3"))
        with self.assertRaisesRegex(kiln.Error, "tiny.toml:3:10: error: n_embd: expected a multiple of n_head"):
            kiln.compile(model, self.path("plan"))
        with self.assertRaisesRegex(kiln.UsageError, "--dtype"):
            kiln.compile(SHAKESPEARE, self.path("plan"), dtype="f31")
        with self.assertRaisesRegex(kiln.Error, "sm_1"):
            kiln.compile(SHAKESPEARE, self.path("plan"), targets="sm_1")
        self.assertFalse(os.path.exists(self.path("plan")))
        with self.assertRaisesRegex(kiln.Error, "plan.toml"):
            kiln.Plan(self.folder)


if __name__ == "__main__":
    unittest.main()
