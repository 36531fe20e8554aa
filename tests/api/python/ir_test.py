"""kiln.ir: the IR as objects."""
import re
import unittest

import kiln
from kiln import ir
from kilntest import ONE_KERNEL, SHAKESPEARE

TEXT = ONE_KERNEL.format("tanh")


class IrTest(unittest.TestCase):
    def test_a_module(self):
        module = ir.parse(TEXT, "small.kiln")
        self.assertEqual((module.name, str(module)), ("small", TEXT))
        self.assertEqual(module.dims, (ir.Dim("B", 1, 4), ir.Dim("T", 1, 16)))
        self.assertEqual([str(weight) for weight in module.weights], ["%w : f32[32,32]", "%b : f32[32]"])
        self.assertEqual(module.weights[0].source, "h.0.mlp.c_fc.weight")
        (function,) = module.functions
        self.assertIs(module.function("@f"), function)
        self.assertEqual((str(function.arguments[0]), str(function.results[0])), ("%x : f32[B,T,32]", "f32[B,T,32]"))
        with self.assertRaisesRegex(KeyError, "no function @g in @small"):
            module.function("g")

    def test_ops_and_regions(self):
        module = ir.parse(TEXT, "small.kiln")
        function = module.function("f")
        fused, returned = function.ops
        self.assertEqual((fused.name, fused.symbol, returned.name), ("fused", "matmul_bias_gelu", "return"))
        self.assertEqual([value.name for value in fused.operands], ["x", "w", "b"])
        (region,) = fused.regions
        self.assertEqual([op.name for op in region.ops], ["matmul", "add", "gelu", "yield"])
        self.assertEqual([op.name for op in function.walk()], ["fused", "matmul", "add", "gelu", "yield", "return"])
        self.assertEqual(list(module.walk()), list(function.walk()))
        matmul, add, gelu, _ = region.ops
        self.assertEqual(str(gelu), "%act = gelu %add {approx = tanh}")
        self.assertIs(gelu.operands[0], add.results[0])
        self.assertIs(add.results[0].op, add)
        self.assertEqual(add.results[0].users, [gelu])
        # The region's %act and the fused op's are two values.
        self.assertIsNot(gelu.results[0], fused.results[0])
        self.assertIs(returned.operands[0], fused.results[0])
        self.assertEqual(module.weights[0].users, [matmul, fused])
        self.assertIs(gelu.parent, fused)
        self.assertIs(fused.parent, function)
        self.assertEqual(str(matmul.location), "small.kiln:9:13")

    def test_attributes(self):
        text = TEXT.replace("@small {", '@small attributes {context = 16, eos = [3, 4], strategy = "a b"} {')
        module = ir.parse(text)
        self.assertEqual(module.attributes, {"context": 16, "eos": [3, 4], "strategy": "a b"})
        approx = next(op for op in module.walk() if op.name == "gelu").attributes["approx"]
        self.assertIsInstance(approx, ir.Ident)
        self.assertEqual(approx, "tanh")
        self.assertNotIsInstance(module.attributes["strategy"], ir.Ident)

    def test_every_stage_of_a_model(self):
        plan = kiln.compile(SHAKESPEARE, cubins=False)
        for stage in ("graph", "fused", "plan"):
            module = plan.module(stage)
            # Each result is defined on a line of its own, which has it first.
            results = re.findall(r"^ +(%[^=:]*?) += ", plan.ir(stage), re.MULTILINE)
            walked = [", ".join("%" + value.name for value in op.results) for op in module.walk() if op.results]
            self.assertEqual(sorted(re.sub(r"\s+", " ", line) for line in results), sorted(walked))
            self.assertTrue(all(op in operand.users for op in module.walk() for operand in op.operands))
            kinds = {type(value) for op in module.walk() for value in op.attributes.values()}
            self.assertLessEqual({int, float, bool, ir.Ident}, kinds)
        layers = {op.location.file for op in module.walk() if op.location}
        self.assertTrue(any(file.endswith("config.json") for file in layers))

    def test_mistakes_have_their_place(self):
        with self.assertRaisesRegex(kiln.Error, r"wrong\.kiln:11:14: error: "):
            ir.parse(TEXT.replace("gelu %add", "gelo %add"), "wrong.kiln")
        with self.assertRaisesRegex(kiln.Error, "<text>:1:1: error: "):
            ir.parse("")


if __name__ == "__main__":
    unittest.main()
