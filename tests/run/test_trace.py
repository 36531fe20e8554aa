"""Traces: their spans add up to what the program reports, and tokens are the same without them. KILN_DEVICE names the
device of plans, emulate if not given; bench is traced on a GPU only."""

import json
import os
import unittest

from kilntest import CONFIG, KilnTest, write_model

SMALL = {**CONFIG, "n_layer": 2}
DEVICE = os.environ.get("KILN_DEVICE", "emulate")
PROMPTS = ["--tokens", "1,2,3", "--tokens", "4"]
ROUNDING = 0.002  # microseconds: times in the file are rounded to nanoseconds


class Span:
    def __init__(self, event, lanes):
        self.lane, self.name, self.args = lanes[event["tid"]], event["name"], event["args"]
        self.start, self.duration = event["ts"], event["dur"]
        self.end = self.start + self.duration

    def contains(self, other):
        return self.start <= other.start + ROUNDING and other.end <= self.end + ROUNDING


def read_trace(path):
    """The spans of a trace, by lane, in the order of their starts."""
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    lanes = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    spans = {lane: [] for lane in lanes.values()}
    for event in events:
        if event["ph"] == "X":
            span = Span(event, lanes)
            spans[span.lane].append(span)
    for lane in spans.values():
        lane.sort(key=lambda span: (span.start, -span.duration))
    return spans


class Traces(KilnTest):
    def setUp(self):
        super().setUp()
        self.model = write_model(self.path("model"), SMALL)

    def trace(self, device, *options):
        """The results of a run, whose tokens are those of a run without a trace, and the spans of its trace."""
        arguments = [self.model, *PROMPTS, *options]
        results = self.run_json(*arguments, "--trace", self.path("trace.json"), device=device)
        without = [option for option in arguments if option != "--trace-kernels"]
        self.assertEqual([result["tokens"] for result in results],
                         [result["tokens"] for result in self.run_json(*without, device=device)])
        self.assertEqual(sorted(os.listdir(self.folder)), ["model", "trace.json"])
        return results, read_trace(self.path("trace.json"))

    def assert_apart(self, spans):
        for span, following in zip(spans, spans[1:]):
            self.assertLessEqual(span.end, following.start + ROUNDING, f"{span.name}, {following.name}")

    def assert_host(self, lanes, names, within):
        """The host's spans have these names; the first contains all others, the last those of some lanes."""
        root, *parts = lanes["host"]
        self.assertEqual([span.name for span in lanes["host"]], names)
        self.assert_apart(parts)
        for spans in lanes.values():
            self.assertTrue(all(root.contains(span) for span in spans))
        for lane in within:
            self.assertTrue(all(parts[-1].contains(span) for span in lanes[lane]))

    def assert_adds_up(self, results, lanes):
        """Lanes do not overlap, parents contain their parts, and times are those that the results have."""
        for lane, spans in lanes.items():
            if lane != "host":
                self.assert_apart(spans)
        self.assert_host(lanes, ["kiln run", "open the model", "open the device", "generate"], ["prompts", "decode"])
        sums = {name: sum(span.duration for span in lanes["prompts"] + lanes["decode"] if span.name == name) / 1000
                for name in ("prompts", "decode")}
        self.assertAlmostEqual(sums["prompts"], results[0]["timing"]["prompt_ms"], 5)
        self.assertAlmostEqual(sums["decode"], max(result["timing"]["decode_ms"] for result in results), 5)

    def test_the_reference_executor(self):
        results, lanes = self.trace("cpu", "--max-new-tokens", 5)
        self.assertEqual(list(lanes), ["host", "prompts", "decode"])
        self.assert_adds_up(results, lanes)
        self.assertEqual([span.name for span in lanes["decode"]], ["first token"] + 4 * ["decode"])
        self.assertEqual(lanes["prompts"][0].args, {"first_sequence": 0, "sequences": 2})

    def test_contexts_that_slide_are_prompts_within_a_step(self):
        results, lanes = self.trace("cpu", "--overflow", "slide", "--max-new-tokens", CONFIG["n_positions"] + 3)
        self.assert_adds_up(results, lanes)
        slides = [span for span in lanes["prompts"] if span.name == "slide"]
        self.assertEqual(len(slides), 2)  # the sequences are full at different times
        for slide in slides:
            self.assertTrue(any(step.contains(slide) for step in lanes["decode"]))

    def test_uploads(self):
        results, lanes = self.trace(DEVICE, "--max-new-tokens", 2)
        self.assertEqual(list(lanes), ["host", "uploads", "prompts", "decode"])
        self.assert_adds_up(results, lanes)
        weights = [span.name for span in lanes["uploads"]]
        self.assertIn("wte", weights)
        self.assertEqual(len(set(weights)), len(weights))

    def test_kernels(self):
        results, lanes = self.trace(DEVICE, "--max-new-tokens", 3, "--trace-kernels", "--seed", 5)
        self.assertEqual(list(lanes), ["host", "uploads", "prompts", "decode", "kernels"])
        self.assert_adds_up(results, lanes)
        steps = lanes["prompts"] + lanes["decode"]
        for kernel in lanes["kernels"]:
            self.assertTrue(any(step.contains(kernel) for step in steps), kernel.name)
        calls = [kernel.args["function"] for kernel in lanes["kernels"] if kernel.args["step"] == 0]
        self.assertEqual(calls, ["@prefill", "@decode", "@decode"])
        gelu = next(kernel for kernel in lanes["kernels"] if kernel.name.startswith("layernorm_matmul_bias_gelu"))
        self.assertEqual(gelu.args["result"], "%act.0")

    def test_lines_that_take_each_others_place(self):
        """With more prompts than rows, prompts start between steps; every token comes within a step."""
        lines = "".join(json.dumps({"tokens": [1 + i] * (1 + i % 5), "max_new_tokens": 1 + i % 4, "greedy": True,
                                    **({"logprobs": 1, "echo": True} if i % 3 == 0 else {})}) + "\n" for i in range(9))
        for device in ("cpu", DEVICE):
            command = ["run", self.model, "--device", device, "--quiet", "--input", "-", "--batch", 2]
            plain = self.kiln(*command, stdin=lines.encode()).out
            self.assertEqual(self.kiln(*command, "--trace", self.path("trace.json"), stdin=lines.encode()).out, plain)
            lanes = read_trace(self.path("trace.json"))
            self.assert_host(lanes, ["kiln run", "open the model", "open the device", "generate"], ["prompts", "decode"])
            # Nothing in these two lanes overlaps: one thread does one after the other.
            self.assert_apart(sorted(lanes["prompts"] + lanes["decode"], key=lambda span: span.start))
            started = {name: sum(span.args["sequences"] for span in lanes["prompts"] if span.name == name) for name in ("prompts", "echo")}
            self.assertEqual(started, {"prompts": 9, "echo": 3})
            tokens = sum(len(json.loads(line)["tokens"]) for line in plain.splitlines())
            self.assertGreaterEqual(sum(span.args["sequences"] for span in lanes["decode"]), tokens)
            generate = lanes["host"][-1]
            self.assertLessEqual(sum(span.duration for span in lanes["prompts"] + lanes["decode"]), generate.duration + ROUNDING)

    def test_each_kernel_lies_in_the_step_that_it_is_of(self):
        """Kernels' times add up to no more than the steps that they are in."""
        _, lanes = self.trace(DEVICE, "--max-new-tokens", 4, "--trace-kernels", "--greedy")
        inside = 0
        for step in lanes["prompts"] + lanes["decode"]:
            own = [kernel for kernel in lanes["kernels"] if step.contains(kernel)]
            inside += len(own)
            self.assertLessEqual(sum(kernel.duration for kernel in own), step.duration + ROUNDING)
            self.assertLessEqual(len({kernel.args["function"] for kernel in own}), 1)
        self.assertEqual(inside, len(lanes["kernels"]))

    def test_a_file_as_perfetto_reads_it(self):
        self.trace("cpu", "--max-new-tokens", 2)
        with open(self.path("trace.json"), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        named = {event["tid"] for event in events if event["ph"] == "M" and event["name"] == "thread_name"}
        for event in events:
            self.assertEqual((event["ph"] in "MX", event["pid"]), (True, 1))
            if event["ph"] == "X":
                self.assertIn(event["tid"], named)
                self.assertGreaterEqual(min(event["ts"], event["dur"]), 0)

    @unittest.skipIf(DEVICE == "emulate", "bench measures on a GPU only")
    def test_samples_of_bench(self):
        for what, lane, call, runs in (("decode", "decode", "decode B=1 position=8", 2), ("prefill", "prompts", "prefill B=1 T=8", 2),
                                       ("kernels", "kernels", "decode B=1 position=8", 1)):
            output = self.kiln("bench", self.model, "--device", DEVICE, "--what", what, "--length", 8, "--samples", 3, "--runs",
                               2, "-o", "json", "--trace", self.path("bench.json")).out
            lanes = read_trace(self.path("bench.json"))
            self.assert_host(lanes, ["kiln bench", "open the model", "open the device", "measure " + call], [lane])
            self.assert_apart(lanes[lane])
            for row in json.loads(output)["rows"]:
                spans = [span for span in lanes[lane] if span.name == row["what"]]
                self.assertEqual(len(spans), 3)
                for span, seconds in zip(spans, row["samples_s"]):
                    self.assertAlmostEqual(span.duration, seconds * runs * 1e6, 2)

    def test_a_trace_replaces_a_file(self):
        self.write("trace.json", "old")
        self.trace("cpu", "--max-new-tokens", 1)

    def test_paths_that_cannot_be_written(self):
        for path, message in (("", "trace: expected"), (self.path("none", "t.json"), "none/t.json: error: cannot write: No such file"),
                              (self.path("model"), "model: error: cannot write: Is a directory")):
            self.assert_fails(message, "run", self.path("no model"), "--trace", path, code=1 if path else 2)

    def test_options_without_effect(self):
        for message, *options in (
                ("--trace-kernels requires --trace", "--trace-kernels", "--device", "emulate"),
                ("--trace-kernels: expected no --check reference", "--trace-kernels", "--trace", self.path("t"), "--device",
                 "emulate", "--check", "reference"),
                ("--trace-kernels", "--trace-kernels", "--trace", self.path("t"), "--device", "cpu")):
            self.assert_fails(message, "run", self.model, *options, code=2)
        self.assert_fails("--trace: --device emulate counts and runs nothing", "bench", self.model, "--device", "emulate",
                          "--trace", self.path("t"), code=2)

    def test_a_run_that_fails_leaves_no_trace(self):
        self.assert_fails("expected token ids in 0..", "run", self.model, "--tokens", 10**6, "--device", "cpu", "--trace",
                          self.path("t"))


if __name__ == "__main__":
    unittest.main()
