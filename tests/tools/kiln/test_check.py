"""kiln check --debug-state: a model against what PyTorch computed for llm.c."""

import json
import math
import struct
import unittest

import modelfiles
from kilntest import CONFIG, KilnTest, run_kiln, write_model

INPUTS = [[1, 2, 3, 4, 5], [28, 7, 7, 0, 9], [3, 1, 4, 1, 5]]
TARGETS = [[2, 3, 4, 5, 6], [7, 7, 0, 9, 28], [1, 4, 1, 5, 9]]


class Check(KilnTest):
    def setUp(self):
        super().setUp()
        self.model = write_model(self.path("model"))
        # The logits after each prefix, as kiln run gives them, which tests/run compares with transformers.
        prefixes = [row[: i + 1] for row in INPUTS for i in range(len(row))]
        options = [argument for prefix in prefixes for argument in ("--tokens", ",".join(map(str, prefix)))]
        rows = [result["logits"][0] for result in self.run_json(self.model, *options, "--max-new-tokens", 1, "--greedy", "--logits")]
        self.logits = [rows[at : at + 5] for at in range(0, 15, 5)]
        losses = []
        for row, target in zip(rows, sum(TARGETS, []), strict=True):
            most = max(row)
            losses.append(math.log(sum(math.exp(value - most) for value in row)) + most - row[target])
        self.loss = sum(losses) / len(losses)

    def state(self, name="state.bin", logits=None, loss=None, targets=TARGETS, gradients=b"gradients"):
        contents = modelfiles.debug_state(INPUTS, targets, logits or self.logits, self.loss if loss is None else loss, gradients)
        return self.write(name, contents)

    def command(self, *options, device="cpu"):
        return ("check", self.model, "--debug-state", self.path("state.bin"), "--device", device, "--quiet", *options)

    def test_the_same(self):
        self.state()
        for device in ("cpu", "emulate"):
            (result,) = self.kiln(*self.command("--json", device=device)).objects()
            self.assertLess(result["logit_difference"], 1e-5)
            self.assertAlmostEqual(result["loss"], self.loss, delta=1e-5)
            self.assertEqual({key: result[key] for key in ("sequences", "tokens")}, {"sequences": 3, "tokens": 5})
        text = self.kiln(*self.command()).out.decode()
        self.assertRegex(text, r"^logits  3 sequences of 5 tokens: largest difference \d\.\d\dE-\d\d, at sequence \d, token \d, id \d+\n"
                               rf"loss    {self.loss:.6f}, expected {self.loss:.6f}\n$")

    def assert_others(self, message, difference, **changes):
        """The figures are shown, too."""
        self.state(**changes)
        result = run_kiln(*self.command("--json"))
        self.assertEqual(result.code, 1)
        self.assertIn(message, result.err.replace(self.folder + "/", ""))
        (figures,) = result.objects()
        self.assertEqual(figures["logit_difference"] is None, math.isnan(difference))
        if not math.isnan(difference):
            self.assertAlmostEqual(figures["logit_difference"], difference, delta=1e-4)
        self.assertAlmostEqual(figures["expected_loss"], changes.get("loss", self.loss), delta=1e-5)

    def test_others(self):
        changed = json.loads(json.dumps(self.logits))
        changed[1][3][7] += 0.02
        self.assert_others("state.bin: error: logits of sequence 1, token 3: expected a difference of at most 0.01, got 2.00E-02", 0.02,
                           logits=changed)
        self.kiln(*self.command("--tolerance", "0.03"))
        changed[1][3][7] = math.nan
        self.assert_others("logits of sequence 1, token 3: expected a difference of at most 0.01, got nan", math.nan, logits=changed)
        self.assert_others("state.bin: error: loss: expected a difference of at most 0.01, got 2.00E-02", 0, loss=self.loss + 0.02)
        self.assert_others("state.bin: error: loss: expected a difference", 0, targets=TARGETS[::-1])

    def test_damaged_files(self):
        whole = modelfiles.debug_state(INPUTS, TARGETS, self.logits, self.loss)

        def with_number(index, value):
            return whole[: 4 * index] + struct.pack("<i", value) + whole[4 * index + 4 :]

        for message, contents in (
                ("byte 0: magic number: expected 20240327 of llm.c's debug states, got 20240326", with_number(0, 20240326)),
                ("byte 4: version: expected 2 of llm.c's debug states, got 1", with_number(1, 1)),
                ("byte 8: number of sequences: expected a number above 0, got 0", with_number(2, 0)),
                ("byte 16: header: expected", whole[:1000]),
                ("inputs: expected at most the", with_number(2, 2**31 - 1)),
                ("inputs: expected at most the", with_number(3, 2**31 - 1)),
                ("byte 1024: inputs: expected an id from 0 to 28, got 29", with_number(256, 29)),
                ("targets: expected an id from 0 to 28, got -1", with_number(256 + 15, -1)),
                ("logits: expected at most the", whole[:-8]),
                ("loss: expected 4 bytes, got 3", whole[:-1])):
            with self.subTest(message=message):
                self.write("state.bin", contents)
                self.assert_fails("state.bin: error: ", *self.command())
                self.assert_fails(message, *self.command())
        self.assert_fails("nowhere: error: cannot read", *self.command()[:3], self.path("nowhere"), "--device", "cpu")
        long = [[1] * 25]
        self.write("state.bin", modelfiles.debug_state(long, long, [[[0.0] * 29] * 25], 0.0))
        self.assert_fails("byte 12: number of tokens: expected at most the model's context of 24, got 25", *self.command())


if __name__ == "__main__":
    unittest.main()
