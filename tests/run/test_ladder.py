"""kiln bench ladder runs rungs, compares them with the reference, and writes a table and a page."""

import json
import os
import re
import unittest

from htmlpage import Page
from kilntest import TINY_MODEL, KilnTest, run_kiln

DEVICE = os.environ.get("KILN_DEVICE", "emulate")


class Ladder(KilnTest):
    def setUp(self):
        super().setUp()
        self.model = self.write("tiny.toml", TINY_MODEL)

    def test_rungs_are_compared_with_the_reference(self):
        page = self.path("page.html")
        result = self.kiln("bench", "ladder", self.model, "--device", DEVICE, "--parts", "layernorm-small,generation",
                           "--quiet", "--report", page, "-o", "json")
        parts = json.loads(result.out)["parts"]
        self.assertEqual([part["part"] for part in parts], ["layernorm-small", "generation"])
        self.assertEqual([part["length"] for part in parts], [16, 8], "as long as the model takes")
        rungs = [rung for part in parts for rung in part["rungs"]]
        self.assertEqual(len(rungs), 11)
        for rung in rungs:
            with self.subTest(rung=rung["rung"]):
                self.assertTrue(rung["is_right"])
                self.assertTrue(0 < rung["max_error"] <= rung["allowed_error"])
                self.assertLessEqual(rung["rmse"], rung["max_error"])
                # Times of the emulated device mean nothing.
                self.assertEqual("median_us" in rung, DEVICE != "emulate")
        first = rungs[0]
        self.assertEqual(first["strategy"], "layernorm=1")
        self.assertEqual((first["launches"], first["bytes"] > 0, first["kernel"]["registers"] > 0), (3, True, True))
        with open(page, encoding="utf-8") as file:
            html = file.read()
        rows = [row for table in Page(html.encode()).root.all("table") for row in table.one("tbody").all("tr")]
        table = [row for row in rows if not row.has("class_", "note")]
        self.assertEqual([row.one("code").text() for row in table], [rung["strategy"] for rung in rungs])
        self.assertEqual({len(list(row.all("td"))) for row in table}, {15}, "a cell for each column")
        self.assertNotRegex(html, r"(src|href)=\"(?!#|data:)")
        self.assertIsNone(re.search("failed|wrong", html))

    def test_markdown_has_a_row_for_each_rung(self):
        out = self.kiln("bench", "ladder", self.model, "--device", DEVICE, "--parts", "fusion", "--quiet").out.decode()
        rows = [line for line in out.splitlines() if line.startswith("| ")]
        self.assertEqual([row.split(" | ")[0] for row in rows[1:]],
                         ["| no fusion but attention's", "| layernorm into its neighbours", "| epilogues of products",
                          "| both"])
        self.assertEqual({row.count("|") for row in rows}, {rows[0].count("|")})

    def test_a_batch_on_several_devices(self):
        result = self.kiln("bench", "ladder", self.model, "--device", "emulate,emulate", "--parts", "gpus", "-o", "json",
                           "--quiet")
        (part,) = json.loads(result.out)["parts"]
        self.assertEqual([rung["rung"] for rung in part["rungs"]],
                         ["one GPU", "all GPUs, allocated and copied for each batch", "all GPUs, buffers kept"])
        errors = [rung["max_error"] for rung in part["rungs"]]
        self.assertEqual(errors, errors[:1] * 3, "the same bits")

    def test_what_it_refuses(self):
        page = self.path("page.html")
        for code, arguments, message in (
                (2, ("--parts", "staircase"), "--parts: expected matmul, .*, got 'staircase'"),
                (2, ("--device", "cpu"), "takes --device emulate or cuda:N"),
                (2, ("--device", DEVICE, "--parts", "gpus"), "--parts: gpus needs several GPUs; give --device cuda:all"),
                (2, ("--text", "x"), "--text requires --eval"),
                (2, ("--device", DEVICE, "--parts", "fusion", "--eval", self.folder, "--text", "x"),
                 "--eval: no rung of --parts fusion changes arithmetic"),
                (1, ("--device", DEVICE, "--eval", self.folder, "--text", self.path("none")), "config.json")):
            result = run_kiln("bench", "ladder", self.model, "--report", page, *arguments)
            self.assertEqual(result.code, code, result.err)
            self.assertRegex(result.err, message)
        self.assertFalse(os.path.exists(page))
        command = ("bench", "ladder", self.model, "--device", DEVICE, "--parts", "layernorm-small", "--report",
                   self.path("none", "page.html"))
        self.assert_fails("none/page.html: error: cannot write: No such file or directory", *command)
        self.assertEqual(run_kiln(*command).err.count("\n"), 1, "nothing is measured before")


if __name__ == "__main__":
    unittest.main()
