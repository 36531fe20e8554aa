"""kiln report: the page is well-formed and complete, its numbers agree with other commands, and bad input writes
nothing."""

import json
import math
import os
import random
import re
import shutil
import tempfile
import unittest
import xml.etree.ElementTree

from htmlpage import Element, Page
from kilntest import CONFIG, SHAKESPEARE, KilnTest, run_kiln, write_model
from test_plan import damage

def number(cell):
    return float(cell.one("data").attributes["value"])


def kernel_rows(page):
    """The cells of the table of kernels, by function and kernel."""
    rows = {}
    for body in page.one("table", class_="kernels").all("tbody"):
        function = None
        for row in body.all("tr"):
            cells = [child for child in row.children if isinstance(child, Element)]
            if row.has("class_", "group"):
                function = row.text().split(",")[0].lstrip("@")
            else:
                name = cells[0].text()
                rows[function, re.sub(r"^[AB] ", "", name)] = cells[1:]
    return rows


class Report(KilnTest):
    @classmethod
    def setUpClass(cls):
        cls.plans = tempfile.mkdtemp(prefix="kiln-test-")
        cls.addClassCleanup(shutil.rmtree, cls.plans)
        write_model(os.path.join(cls.plans, "model"))
        cls.embedded = cls.compile(SHAKESPEARE, "embedded", "--stage", "cubin")
        cls.small = cls.compile(os.path.join(cls.plans, "model"), "small", "--stage", "cuda")
        cls.half = cls.compile(os.path.join(cls.plans, "model"), "half", "--stage", "cuda", "--dtype", "bf16")

    @classmethod
    def compile(cls, model, name, *options):
        path = os.path.join(cls.plans, name)
        result = run_kiln("compile", model, "--quiet", "-o", path, *options)
        if result.code != 0:
            raise AssertionError(result.err)
        return path

    def report(self, *arguments):
        self.kiln("report", *arguments, "-o", self.path("report.html"))
        with open(self.path("report.html"), "rb") as file:
            return Page(file.read()).root

    def counts(self, plan, function, *options):
        """The counts of kiln bench for a function's kernels."""
        return json.loads(self.kiln("bench", plan, "--device", "emulate", "--what", "kernels", "--of", function, *options, "-o",
                                    "json").out)

    def profile(self, plan, function, *options):
        """A made-up profile in a GPU's format: each kernel takes twice as long as its roofline."""
        profile = self.counts(plan, function, *options)
        profile["device"] = "Test <GPU>"
        for row in profile["rows"]:
            row["median_us"] = 2 * row["roofline_us"]
            row["samples_s"] = [2e-6 * row["roofline_us"]] * 3
        return profile


class Pictures(Report):
    def test_a_layer_before_and_after_fusion(self):
        picture = self.path("layer.svg")
        self.assertEqual(self.kiln("report", self.embedded, "--picture", picture).out, b"")
        with open(picture, encoding="utf-8") as file:
            root = xml.etree.ElementTree.fromstring(file.read())
        texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
        self.assertEqual([text for text in texts if " " in text][0], "A layer as the front end writes it: 22 ops")
        self.assertIn("The same, fused: 5 kernels", texts)
        kernels = [group for group in root.iter("{http://www.w3.org/2000/svg}g") if group.get("class") == "kernel"]
        self.assertEqual(len(kernels), 5)
        self.assertFalse(list(root.iter("{http://www.w3.org/2000/svg}a")), "a file of its own has no links")
        # Together with a page.
        self.kiln("report", self.embedded, "--picture", self.path("again.svg"), "-o", self.path("page.html"))
        with open(picture, "rb") as first, open(self.path("again.svg"), "rb") as second:
            self.assertEqual(first.read(), second.read())

    def test_what_cannot_be_drawn(self):
        one = self.compile(write_model(self.path("model"), {**CONFIG, "n_layer": 1}), "one-layer", "--stage", "cuda")
        self.assert_fails("error: expected a model of several equal layers, of which one can be drawn", "report", one, "--picture",
                          self.path("x.svg"))
        text = self.write("m.kiln", "module @m {\n  dim B : 1..4\n  func @f(%x: f32[B,8]) -> f32[B,8] {\n"
                          "    %y = gelu %x {approx = tanh} : f32[B,8]\n    return %y\n  }\n}\n")
        other = self.compile(text, "no-model", "--stage", "cuda")
        self.assert_fails("error: expected a plan with @prefill, of which a layer can be drawn", "report", other, "--picture",
                          self.path("x.svg"))
        self.assert_fails("error: -o is required, or --picture\n", "report", one, code=2)


class Pages(Report):
    def test_needs_nothing_beside_it(self):
        page = self.report(self.embedded)
        for element in page.all():
            self.assertNotIn("src", element.attributes)
            self.assertNotIn(element.tag, ("iframe", "object", "embed", "img"))
            for name, value in element.attributes.items():
                self.assertNotRegex(name, "^on")
                if name == "href":
                    self.assertRegex(value, "^(#|data:,$)")
                elif element.tag != "meta":
                    self.assertNotRegex(value or "", r"https?:|url\((?!#)")
        self.assertNotRegex(page.one("style").text(), r"url\(|@import|https?:")

    def test_links_and_ids(self):
        for plans in ([self.embedded], [self.small, self.half]):
            page = self.report(*plans)
            ids = [element.attributes["id"] for element in page.all() if "id" in element.attributes]
            self.assertEqual(len(ids), len(set(ids)))
            for link in page.all("a"):
                self.assertIn(link.attributes["href"][1:], ids)

    def test_pictures_have_names(self):
        for svg in self.report(self.embedded).all("svg"):
            self.assertTrue(svg.attributes.get("aria-label") or svg.attributes.get("aria-hidden") == "true")

    def test_kernels(self):
        page = self.report(self.embedded)
        resources = [[cell.strip() for cell in line.strip("|").split("|")]
                     for line in self.kiln("dump", self.embedded).out.decode().splitlines()[2:]]
        self.assertGreater(len(resources), 20)
        sections = list(page.all("details", class_="kernel"))
        self.assertEqual([section.attributes["id"] for section in sections], ["a-kernel-" + row[0] for row in resources])
        for section, (name, _, registers, shared, _, stores, loads) in zip(sections, resources):
            facts = {fact.one("dt").text(): fact.one("dd").text() for fact in section.one("dl").all("div")}
            self.assertEqual(facts["registers"], registers + " a thread")
            spills = "none" if stores == loads == "0" else f"{stores} B stored, {loads} B loaded a thread"
            self.assertEqual(facts["spills"], spills)
            if int(shared) < 1000:
                self.assertEqual(facts["shared memory"], shared + " B a block")
            self.assertRegex(facts["occupancy"], r"^\d+ %, \d+ blocks a multiprocessor, limited by ")
            source = self.kiln("dump", self.embedded, "--kernel", name, "--what", "cuda").out.decode()
            self.assertEqual(section.one("pre", class_="cuda").text(), source)

    def test_sizes(self):
        with open(os.path.join(self.half, "plan.toml")) as file:
            text = file.read()
        weights = [part for part in text.split("[[")[1:] if part.startswith("weights]]")]
        expected = sum(math.prod(map(int, re.search(r"\nshape = \[(.*)\]", weight).group(1).split(","))) *
                       {"f32": 4, "bf16": 2}[re.search(r'dtype = "(\w+)"', weight).group(1)] for weight in weights)
        page = self.report(self.half, "--batch", 3, "--length", 5)
        rows = {row.one("th").text(): row for row in page.one("table", class_="summary").all("tr")}
        self.assertEqual(number(rows["weights"]), expected)
        # One key and one value for 24 positions and 32 channels, for 2 layers and 3 sequences, in bf16.
        self.assertEqual(number(rows["states"]), 2 * 2 * 3 * 24 * 32 * 2)
        arenas = re.findall(r'\narena = "(.*)"', text)
        values = [eval(arena, {"B": 3, "T": 5, "max": max, "min": min, "ceildiv": lambda a, b: -(-a // b)}) for arena in arenas]
        self.assertEqual(number(rows["arena, peak"]), max(values))
        self.assertEqual([number(list(row.all("td"))[-1]) for row in list(page.one("table", class_="calls").all("tr"))[1:]], values)

    def test_counts(self):
        rows = kernel_rows(self.report(self.embedded, "--batch", 8, "--length", 100))
        for function in ("prefill", "decode"):
            counted = self.counts(self.embedded, function, "--batch", 8, "--length", 100)["rows"]
            self.assertEqual({kernel for name, kernel in rows if name == function}, {row["what"] for row in counted})
            for row in counted:
                launches, count, flops, roofline = rows[function, row["what"]][:4]
                self.assertEqual(launches.text(), str(row["launches"]))
                self.assertEqual((number(count), number(flops)), (row["bytes"], row["flops"]))
                self.assertAlmostEqual(number(roofline), row["roofline_us"], 9)
            # The slowest kernels come first.
            times = [number(cells[3]) for (name, _), cells in rows.items() if name == function]
            self.assertEqual(times, sorted(times, reverse=True))

    def code(self, page, kernel):
        """The kernel's ops, and the lines of its CUDA that belong to each; None has the lines that belong to no op."""
        code = page.one("details", id="a-kernel-" + kernel).one("div", class_="code")
        lines = {}
        for line in code.one("pre", class_="cuda").all(class_="line"):
            for op in line.attributes.get("data-op", "").split() or [None]:
                lines.setdefault(op, []).append(line.text().strip())
        ir = [line.attributes["data-op"] for line in code.one("pre", class_="ir").all(class_="line")]
        return ir, lines

    def test_ir_and_cuda(self):
        page = self.report(self.small)
        ir, lines = self.code(page, "layernorm_matmul_bias_gelu__f32__n128_k32")
        self.assertEqual(ir, ["ln_2", "fc_mm", "fc", "act"])
        self.assertTrue(any(line.startswith("const auto ln_2 = ") for line in lines["ln_2"]))
        self.assertRegex(lines["fc_mm"][1], r"<Config>\(")
        self.assertEqual([line.split(" //")[0] for line in lines["fc"][1:]], ["const auto fc = fc_mm + kiln::load<V>(fc_b + col);"])
        self.assertEqual([line.split(" //")[0] for line in lines["act"][1:]], ["const auto act = gelu_tanh(fc);"])
        self.assertIn("struct Config {", lines[None])
        # A call over several lines that implements several ops.
        ir, lines = self.code(page, "attention__f32__h2_hs16")
        self.assertEqual(ir, ["scores", "scaled", "masked", "probs", "context", "attn"])
        self.assertEqual(lines["scores"][1:], lines["probs"][1:])
        self.assertRegex(lines["scores"][1], r"<Config>\(")
        self.assertTrue(lines["scores"][-1].endswith(";"))
        self.assertGreater(len(lines["scores"]), 3)
        self.assertEqual(len(lines["scaled"]), 2)
        # A comment without code marks an op that is computed together with a later one.
        ir, lines = self.code(page, "layernorm_matmul_bias_split_cache__f32__n96_k32")
        self.assertTrue(all(line.startswith("//") for line in lines["k"]))
        # One store of several values belongs to all ops that store them.
        for op in ("q", "kc", "vc"):
            self.assertTrue(lines[op][-1].startswith("store(to + "))
            self.assertEqual(lines[op][2:], lines["q"][2:])


class KernelRecords(Report):
    """What the page says about a kernel comes from the plan; sources are only displayed."""

    kernel = "layernorm_matmul_bias_gelu__f32__n128_k32"

    def changed(self, change):
        """A copy of the small plan in which the kernel's part of plan.toml is changed."""
        plan = self.path("plan")
        shutil.rmtree(plan, ignore_errors=True)
        shutil.copytree(self.small, plan)
        with open(os.path.join(plan, "plan.toml")) as file:
            text = file.read()
        own = re.search(rf'\[\[kernels\]\]\nname = "{self.kernel}"\n.*?(?=\[\[)', text, re.DOTALL).group()
        self.assertNotEqual(own, change(own))
        self.write("plan/plan.toml", text.replace(own, change(own)))
        return plan

    def lines(self, plan):
        """The text of the kernel's IR, and of the CUDA lines of each op."""
        section = self.report(plan).one("details", id="a-kernel-" + self.kernel)
        marked = {}
        for line in section.one("pre", class_="cuda").all(class_="line"):
            for op in line.attributes.get("data-op", "").split():
                marked.setdefault(op, []).append(line.text().strip())
        return [line.text() for line in section.all("pre", class_="ir")], marked

    def test_another_map(self):
        ir, marked = self.lines(self.changed(lambda own: re.sub(
            r'value = "fc", op = ".*", lines = .*\]', 'value = "other", op = "neg %<b>", lines = [1, 2]', own)))
        self.assertIn("%other = neg %<b>", ir[0])
        self.assertEqual([line.startswith("//") for line in marked["other"]], [True, True])
        self.assertNotIn("fc", marked)

    def test_no_map(self):
        ir, marked = self.lines(self.changed(lambda own: re.sub("lines = .*?]", "lines = []", own)))
        self.assertIn("%ln_2  = layernorm %mid", ir[0])
        self.assertEqual(marked, {})
        self.assertEqual(self.lines(self.changed(lambda own: re.sub(r"ops = \[\n(  .*\n)*\]\n", "", own))), ([], {}))

    def test_what_is_no_map(self):
        output = ["-o", self.path("x.html")]
        for old, new, message in (
                (r", lines = \[3, .*\]", "", r"plan/plan.toml:\d+:\d+: error: ops: missing key 'lines'"),
                (r"lines = \[3, ", "lines = [0, ", r"plan/plan.toml:\d+:\d+: error: lines: expected an integer of 1 or more, got 0"),
                (r"lines = \[3, ", "lines = [300, ", r"plan/plan.toml:\d+:\d+: error: lines: expected lines .* in rising order"),
                (r"lines = \[3, .*\]", "lines = [3, 5000]", r"plan/kernels/" + self.kernel +
                 r"\.cu: error: expected line 5000, which is about %ln_2 as plan.toml has it, got \d+ lines; compile the model again")):
            with self.subTest(new=new):
                result = run_kiln("report", self.changed(lambda own: re.sub(old, new, own, count=1)), *output)
                self.assertEqual((result.code, result.out), (1, b""))
                self.assertRegex(result.err.replace(self.folder + "/", ""), "^" + message)
                self.assertFalse(os.path.exists(self.path("x.html")))

    def test_another_title(self):
        plan = self.changed(lambda own: own.replace('title = "layernorm', 'title = "other').replace('extents = "n128', 'extents = "wide'))
        names = [text.text() for svg in self.report(plan).all("svg", class_="graph") for text in svg.all("text")]
        self.assertIn("other_matmul_bias_gelu", names)
        self.assertIn("f32__wide_k32", names)
        table = self.report(self.small, plan).one("table", class_="kernels")
        alone = [row.text() for row in table.all("tr") if row.has("class_", "alone")]
        self.assertEqual({(text[0], text[-4:]) for text in alone}, {("A", "in A"), ("B", "in B")})

    def test_an_edited_source(self):
        """The report takes nothing from comments."""
        plan = self.changed(lambda own: own + " ")
        path = os.path.join(plan, "kernels", self.kernel + ".cu")
        with open(path) as file:
            text = file.read()
        self.write(path, text.replace("%fc = add", "%gc = mul").replace("<Config>(", "<  Config  >("))
        self.assertEqual(self.lines(plan)[1].keys(), {"ln_2", "fc_mm", "fc", "act"})


class Graphs(Report):
    def graphs(self, *plans):
        return {svg.attributes["aria-label"]: svg for svg in self.report(*plans).all("svg", class_="graph")}

    def test_layers_are_drawn_once(self):
        graphs = self.graphs(self.embedded)
        self.assertEqual(list(graphs), [f"@{function} {when} fusion" for function in ("prefill", "score", "decode")
                                        for when in ("before", "after")])
        for name, layers in (("@prefill before fusion", 6), ("@prefill after fusion", 5), ("@decode after fusion", 6)):
            group = graphs[name].one("g", class_="layers")
            self.assertEqual([child.text() for child in group.children if child.tag == "text"], [f"{layers} ×"])
        # A layer of GPT-2 has 22 ops; the embedding, the last norm, the last row and the logits are outside.
        before = graphs["@prefill before fusion"]
        self.assertEqual(len(list(before.all("g", class_="op"))), 26)
        self.assertEqual(len(list(before.one("g", class_="layers").all("g", class_="op"))), 22)
        after = graphs["@decode after fusion"].one("g", class_="layers")
        self.assertEqual([next(kernel.all("text", class_="name")).text() for kernel in after.all("g", class_="kernel")],
                         ["layernorm_matmul_bias_split_cache", "attention", "matmul_bias_residual", "layernorm_matmul_bias_gelu",
                          "matmul_bias_residual"])

    def test_boxes_do_not_overlap(self):
        for plan in (self.embedded, self.half):
            for name, svg in self.graphs(plan).items():
                width, height = (float(svg.attributes[key]) for key in ("width", "height"))
                for group in svg.all("g"):
                    if "transform" in group.attributes:
                        self.check_boxes(name, [box(node) for node in group.children if node.tag == "g"])
                for x, y, w, h in absolute_boxes(svg, 0, 0):
                    self.assertTrue(x >= 0 and y >= 0 and x + w <= width and y + h <= height, name)

    def check_boxes(self, name, boxes):
        for i, (x, y, width, height) in enumerate(boxes):
            for other in boxes[:i]:
                apart = (x >= other[0] + other[2] or other[0] >= x + width or y >= other[1] + other[3] or other[1] >= y + height)
                self.assertTrue(apart, f"{name}: {boxes[i]} and {other}")


def box(node):
    rect = next(node.all("rect"))
    return tuple(float(rect.attributes[key]) for key in ("x", "y", "width", "height"))


def absolute_boxes(element, x, y):
    for child in element.children:
        if isinstance(child, str):
            continue
        dx, dy = map(float, re.findall(r"-?[\d.]+", child.attributes.get("transform", "0 0")))
        if child.tag == "rect":
            left, top, width, height = (float(child.attributes[key]) for key in ("x", "y", "width", "height"))
            yield x + left, y + top, width, height
        yield from absolute_boxes(child, x + dx, y + dy)


class Memory(Report):
    def test_every_buffer(self):
        page = self.report(self.small)
        with open(os.path.join(self.small, "plan.toml")) as file:
            functions = file.read().split("[[functions]]")[1:]
        figures = {figure.one("strong").text().split(",")[0]: figure for figure in page.all("figure", class_="memory")}
        for text in functions:
            name = "@" + re.search(r'name = "(\w+)"', text).group(1)
            # A buffer has `live = [first, last]`, a step has `workspace = {`.
            blocks = len(re.findall(r"live = \[", text)) + len(re.findall(r"workspace = \{", text))
            if blocks == 0:
                self.assertNotIn(name, figures)
                continue
            self.assertEqual(len(list(figures[name].one("svg").all("rect"))), blocks)
            self.assertEqual(len(list(figures[name].one("tbody").all("tr"))), blocks)


class Profiles(Report):
    def test_times(self):
        profile = self.profile(self.small, "decode", "--batch", 4, "--length", 7)
        self.write("profile.json", json.dumps(profile))
        page = self.report(self.small, "--profile", self.path("profile.json"))
        rows = kernel_rows(page)
        for row in profile["rows"]:
            cells = rows["decode", row["what"]]
            self.assertAlmostEqual(number(cells[4]), row["median_us"], 9)
            self.assertAlmostEqual(number(cells[5]), 0.5, 9)
            self.assertEqual(cells[0].text(), str(row["launches"]))
        self.assertTrue(all(cells[4].text() == "–" for (function, _), cells in rows.items() if function == "prefill"))
        self.assertIn("@decode, B = 4, position = 7", page.one("table", class_="kernels").text())
        self.assertGreater(len(list(page.all("circle", class_="reached"))), 3)
        self.assertIn("Test <GPU>", page.one(id="summary").text())

    def test_phases(self):
        self.write("model/config.json", json.dumps({**CONFIG, "n_embd": 128, "n_head": 2}))
        plan = self.path("plan")
        self.kiln("compile", self.path("model"), "--stage", "cuda", "--quiet", "--dtype", "bf16", "--decode", "persistent",
                  "--max-batch", 1, "-o", plan)
        profile = self.profile(plan, "decode", "--length", 7)
        row, = (row for row in profile["rows"] if row["what"].startswith("decode_layers"))
        row["phases"] = [{"phase": "qkv", "share": 0.25}, {"phase": "mid", "share": 0.75}]
        self.write("profile.json", json.dumps(profile))
        table = self.report(plan, "--profile", self.path("profile.json")).one("table", class_="phases")
        rows = [[cell for cell in row.children if isinstance(cell, Element)] for row in table.one("tbody").all("tr")]
        self.assertEqual([cells[0].text() for cells in rows], ["qkv", "mid"])
        for cells, share in zip(rows, (0.25, 0.75)):
            self.assertAlmostEqual(number(cells[1]), share * row["median_us"], 9)
            self.assertAlmostEqual(number(cells[2]), share, 9)
        for bad in ({"phase": "elsewhere", "share": 0.5}, {"phase": "qkv", "share": 1.5}, {"phase": "qkv"}):
            row["phases"] = [bad]
            self.write("profile.json", json.dumps(profile))
            self.assert_fails("profile.json:", "report", plan, "--profile", self.path("profile.json"), "-o", self.path("no.html"))

    def test_decode_beside_the_longest_prompt(self):
        """The longest prompt leaves no position for decode, so the last one is used."""
        profile = self.profile(self.small, "prefill", "--batch", 1, "--length", 24)
        self.write("profile.json", json.dumps(profile))
        page = self.report(self.small, "--profile", self.path("profile.json"))
        text = page.one("table", class_="kernels").text()
        self.assertIn("@prefill, B = 1, T = 24", text)
        self.assertIn("@decode, B = 1, position = 23", text)

    def test_dims_of_several(self):
        profile = self.profile(self.small, "decode", "--batch", "1,2", "--length", "3,4")
        self.write("profile.json", json.dumps(profile))
        page = self.report(self.small, "--profile", self.path("profile.json"), "--batch", 2, "--length", 3)
        self.assertIn("@decode, B = 2, position = 3", page.one("table", class_="kernels").text())
        self.assert_fails("profile.json: error: expected rows of batch 2 and length 5; the first is of batch 1 and length 3", "report",
                          self.small, "--profile", self.path("profile.json"), "--batch", 2, "--length", 5, "-o", self.path("x.html"))

    def assert_refused(self, message, text):
        self.write("profile.json", text)
        self.assert_fails("profile.json:" + message, "report", self.small, "--profile", self.path("profile.json"), "-o",
                          self.path("x.html"))

    def test_bad_profiles(self):
        profile = self.profile(self.small, "decode", "--length", 7)

        def changed(**keys):
            return json.dumps({**profile, **keys})

        def changed_row(**keys):
            return json.dumps({**profile, "rows": [{**profile["rows"][0], **keys}]})

        self.assert_refused("1:1: error: not valid JSON", "")
        self.assert_refused("", json.dumps(profile)[:100])
        self.assert_refused("1:1: error: profile: missing key 'device'", "{}")
        self.assert_refused("1:", changed(rows=[]))
        self.assert_refused("1:", changed(rows=[1]))
        self.assert_refused("1:", changed(source_hash="0" * 64))
        self.write("other.json", json.dumps(self.profile(self.half, "decode", "--length", 7)))
        self.assert_fails(": a profile of another plan", "report", self.small, "--profile", self.path("other.json"), "-o",
                          self.path("x.html"))
        for keys in ({"what": "none"}, {"what": "decode B=1 position=64"}, {"function": "score"}, {"function": "none"},
                     {"batch": 0}, {"launches": "x"}, {"median_us": -1}, {"median_us": "x"}, {"what": 1}):
            with self.subTest(keys=keys):
                self.assert_refused("1:", changed_row(**keys))
        counts = self.counts(self.small, "decode", "--length", 7)
        self.assert_refused("1:", json.dumps(counts))
        self.assert_fails("missing key 'median_us'; expected times that a GPU took", "report", self.small, "--profile",
                          self.path("profile.json"), "-o", self.path("x.html"))
        self.assert_fails("none.json: error: cannot read: No such file", "report", self.small, "--profile", self.path("none.json"),
                          "-o", self.path("x.html"))


class TwoPlans(Report):
    def test_side_by_side(self):
        page = self.report(self.small, self.half)
        for side, plan in (("a", self.small), ("b", self.half)):
            names = sorted(name[:-3] for name in os.listdir(os.path.join(plan, "kernels")))
            sections = [section.attributes["id"] for section in page.all("details", class_="kernel")]
            self.assertEqual(sorted(name for name in sections if name.startswith(side)), [f"{side}-kernel-{name}" for name in names])
        summary = {row.one("th").text(): [cell.text() for cell in row.all("td")]
                   for row in page.one("table", class_="summary").all("tr") if len(list(row.all("th"))) == 1}
        self.assertEqual(summary["dtype"], ["f32", "bf16", "other"])
        self.assertEqual(summary["target"][2], "same")
        self.assertEqual(summary["states"][2], "−50.0 %")
        rows = list(page.one("table", class_="kernels").all("tr"))
        pairs = [(a, b) for a, b in zip(rows, rows[1:]) if a.has("class_", "first")]
        self.assertTrue(pairs)
        for first, second in pairs:
            self.assertTrue(second.has("class_", "second"))
            names = [row.one("a").text() for row in (first, second)]
            self.assertEqual(*(re.sub(r"__(f32|bf16|r\d+)", "", name) for name in names))

    def test_the_same_plan(self):
        page = self.report(self.small, self.small)
        self.assertEqual({cell.text() for row in page.one("table", class_="summary").all("tr") for cell in list(row.all("td"))[2:]},
                         {"", "same"})
        self.assertNotIn("only in", page.one("table", class_="kernels").text())


class OtherPlans(Report):
    """Plans that are not of language models, and plans that use a strategy or a library."""

    def test_modules(self):
        for name, body in (("empty", "return %x"), ("weight", "%y = add %x, %w : f32[N,8]\n    return %y"),
                           ("wide", "%y = relu %x : f32[N,8]\n    %z = add %y, %x : f32[N,8]\n    return %z")):
            self.write("m.kiln", f"""module @m {{
  dim N : 1..64
  weight %w : f32[8] = "w"
  func @f(%x: f32[N,8]) -> f32[N,8] {{
    {body}
  }}
}}
""")
            self.kiln("compile", self.path("m.kiln"), "--stage", "cuda", "--quiet", "-o", self.path(name))
            page = self.report(self.path(name))
            self.assertEqual([svg.attributes["aria-label"] for svg in page.all("svg", class_="graph")],
                             ["@f before fusion", "@f after fusion"])

    def test_strategy(self):
        plan = self.compile(os.path.join(self.plans, "model"), "strategy", "--stage", "cuda", "--strategy", "fusion=off,attention=unfused")
        page = self.report(plan, self.small)
        self.assertIn("strategyfusion=off,attention=unfusedthe compiler's", page.one("table", class_="summary").text())

    def test_library(self):
        plan = self.compile(os.path.join(self.plans, "model"), "library", "--stage", "cuda", "--dtype", "bf16", "--matmul", "cublaslt")
        page = self.report(plan)
        launches = kernel_rows(page)["prefill", "cublaslt.matmul"][0].text()
        self.assertGreater(int(launches), 1)
        self.assertIn("cublaslt.matmul", page.one("table", class_="kernels").text())


class Names(Report):
    def test_markup_in_names(self):
        plan = self.path("<script>alert(1)<\\script> & \"quoted\" 'x'.plan")
        shutil.copytree(self.small, plan)
        page = self.report(plan)
        self.assertIn(plan, page.one("table", class_="summary").text())
        self.assertEqual(len(list(page.all("script"))), 1)

    def test_names_that_are_no_text(self):
        plan = os.fsencode(self.path("a")) + b"\xff\x01.plan"
        shutil.copytree(os.fsencode(self.small), plan)
        self.kiln("report", plan, "-o", self.path("report.html"))
        with open(self.path("report.html"), "rb") as file:
            page = Page(file.read()).root
        self.assertIn("a\ufffd\ufffd.plan", page.one("table", class_="summary").text())


class Errors(Report):
    def test_plans(self):
        output = ["-o", self.path("x.html")]
        self.assert_fails("plan.toml: error: cannot read: No such file", "report", self.path("none"), *output)
        self.assert_fails("plan.toml: error: cannot read: No such file", "report", SHAKESPEARE, *output)
        plan = shutil.copytree(self.small, self.path("plan"))
        kernel = sorted(os.listdir(self.path("plan/kernels")))[0]
        os.remove(self.path("plan/kernels", kernel))
        self.assert_fails("is missing", "report", plan, *output)
        shutil.rmtree(plan)
        shutil.copytree(self.small, plan)
        with open(self.path("plan/ir/plan.kiln")) as file:
            text = file.read()
        self.write("plan/ir/plan.kiln", text.replace(" = matmul ", " = mutmal ", 1))
        self.assert_fails("plan/ir/plan.kiln:", "report", plan, *output)
        # IR of a wrong stage.
        with open(os.path.join(self.small, "ir", "graph.kiln"), "rb") as file:
            self.write("plan/ir/plan.kiln", file.read())
        self.assert_fails("plan/ir/plan.kiln: error: @prefill: expected an op for each of the plan's", "report", plan, *output)
        os.remove(self.path("plan/ir/graph.kiln"))
        self.assert_fails("plan/ir/graph.kiln: error: cannot read: No such file", "report", plan, *output)

    def test_random_damage(self):
        """Whatever the damage, the program ends with a well-formed page or an error message."""
        generator = random.Random(1)
        plan = shutil.copytree(self.small, self.path("plan"))
        self.write("profile.json", json.dumps(self.profile(plan, "decode", "--length", 7)))
        names = ["profile.json", "plan/plan.toml", "plan/ir/graph.kiln", "plan/ir/plan.kiln",
                 "plan/kernels/" + sorted(os.listdir(self.path("plan/kernels")))[0]]
        for _ in range(80):
            name = generator.choice(names)
            with open(self.path(name), "rb") as file:
                original = file.read()
            self.write(name, damage(original, generator))
            result = run_kiln("report", plan, "--profile", self.path("profile.json"), "-o", "-")
            self.assertIn(result.code, (0, 1), result.err)
            self.assertEqual("error: " in result.err, result.code == 1)
            if result.code == 0:
                Page(result.out)
            self.write(name, original)

    def test_output(self):
        for output, reason in (("/proc/none/x", "No such file"), ("/dev/null/x", "Not a directory"), (self.folder, "Is a directory"),
                               ("/dev/full", "")):
            self.assert_fails("error: cannot write: " + reason, "report", self.small, "-o", output)
        out = self.kiln("report", self.small, "-o", "-").out
        self.kiln("report", self.small, "-o", self.path("x.html"))
        with open(self.path("x.html"), "rb") as file:
            self.assertEqual(file.read(), out)

    def test_dims(self):
        self.assert_fails("error: @prefill: expected B from 1 to 64, got 65", "report", self.small, "--batch", 65, "-o",
                          self.path("x.html"))
        self.assert_fails("error: @prefill: expected T from 1 to 24, got 25", "report", self.small, "--length", 25, "-o",
                          self.path("x.html"))

    def test_usage(self):
        self.assert_fails("-o", "report", self.small, code=2)
        self.assert_fails("PLAN2", "report", self.small, "--profile2", "x.json", "-o", self.path("x.html"), code=2)
        self.assert_fails("expected an integer from 1", "report", self.small, "--batch", 0, "-o", self.path("x.html"), code=2)


if __name__ == "__main__":
    unittest.main()
