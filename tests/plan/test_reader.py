"""A plan is checked before anything is allocated. Every key of a real plan.toml is changed in every way that makes it
wrong; each change is an error with its position that names the key."""

import os
import re
import shutil
import tempfile
import tomllib
import unittest
from concurrent.futures import ThreadPoolExecutor

import plantext
from kilntest import KilnTest, run_kiln

MODEL = "vocab_size = 29\nn_positions = 24\nn_embd = 32\nn_layer = 1\nn_head = 2\n"

# The scratch of decode's attention, which has none on this GPU: behind the buffers that are live at its step.
SCRATCH = '"@workspace", "@mailboxes"], workspace = {offset = "384*B", bytes = "160*B"}, mailboxes = 16'

# Keys that may be left out: plans omit them where they do not apply.
OPTIONAL = {"scale", "add", "sum", "transpose", "pad", "dynamic_shared", "cooperative", "workspace", "counters", "arrays", "mailboxes", "variants", "sm_90a", "strategy", "batch_invariant", "step_by_step", "weights_first", "serial", "constants", "number", "cluster", "phases", "ops", "maps",
            "prefill", "decode", "verify", "score", "sample", "accept", "ngram", "follow", "collect", "pretend"}
OPTIONAL_IN = {("kernels", "*", "rows"),  # but not of a step with variants
               ("origin", "weights"), ("origin", "vocabulary")}

FORMULAS = {"arena": '"800*B"', "live": '"800*B"', "offset": '"800*B"', "bytes": '"800*B"', "flops": '"800*B"',
            "counters": '"2*B"', "grid": '"16"', "shape": '"B"', "extents": '"B"', "strides": '"16"'}
NO_FORMULAS = {("kernels", "*", "extents")}  # a part of the kernel's name

# What a kernel of this plan could take as tensor maps: a weight of [64, 32], and a buffer of [B, T, 32].
MAPS = """maps = [
  {argument = 1, dtype = "f32", extents = ["32", "2", "4", "8"], strides = ["128", "256", "1024"], box = ["32", "2", "4", "1"]},
  {argument = 3, dtype = "f32", extents = ["32", "B*T"], strides = ["128"], box = ["32", "8"]},
]
arrays = [{argument = 1, size = 1}, {argument = 3, size = 1}]
"""
# What a plan of a directory has.
ORIGIN = f"""[origin]
path = "../tiny"
weights = "{"0123456789abcdef" * 4}"
vocabulary = "{"0" * 64}"
"""
# Recipes as a plan has them whose layernorms are part of products.
RECIPES = {
    'source_shape = [32, 96]\n': 'source_shape = [32, 96]\nscale = "h.0.ln_1.weight"\n',
    'source = "h.0.attn.c_attn.bias"\nsource_shape = [96]\n':
        'source = "h.0.attn.c_attn.bias"\nsource_shape = [96]\n'
        'add = {vector = "h.0.ln_1.bias", matrix = "h.0.attn.c_attn.weight", matrix_shape = [32, 96]}\n',
    'source = "h.0.mlp.c_fc.bias"\nsource_shape = [128]\n':
        'source = "h.0.mlp.c_fc.weight"\nsource_shape = [32, 128]\nsum = "bf16"\n',
}
BAD_FORMULAS = ('""', '"B*"', '"B B"', '"B-1"', '"-1"', '"(B"', '"B)"', '"min(B)"', '"max(B,1"', '"pow(B,2)"', '"B/2"',
                '"ceildiv(B,0)"', '"X"', '"9223372036854775808"', '"9223372036854775807*B+1"', '"B*' + "(" * 100 + 'B"',
                '"' + "1+B+" * 5000 + 'B"')


class PlanTest(KilnTest):
    """A plan, and the program's messages about it after a change."""

    model = MODEL
    options = ()  # of kiln compile

    @classmethod
    def setUpClass(cls):
        cls.original = tempfile.mkdtemp(prefix="kiln-test-")
        cls.addClassCleanup(shutil.rmtree, cls.original)
        with open(os.path.join(cls.original, "tiny.toml"), "w") as file:
            file.write(cls.model)
        plan = os.path.join(cls.original, "plan")
        result = run_kiln("compile", os.path.join(cls.original, "tiny.toml"), "--stage", "cuda", "--quiet", "-o", plan,
                          *cls.options)
        if result.code != 0:
            raise AssertionError(result.err)
        cls.text = cls.with_cubins(plan)
        cls.sites = plantext.scan(cls.text)

    @staticmethod
    def with_cubins(plan):
        """Makes it look as if NVRTC had compiled the plan: the reader checks that cubins exist, not what they
        contain."""
        os.makedirs(os.path.join(plan, "cubin/sm_90a"))
        for name in os.listdir(os.path.join(plan, "kernels")):
            open(os.path.join(plan, "cubin/sm_90a", name.replace(".cu", ".cubin")), "w").close()
        with open(os.path.join(plan, "plan.toml")) as file:
            text = file.read().replace("cubins = []", 'cubins = ["sm_90a"]', 1)
        use = "resources.sm_90a = {registers = 40, shared = 0, stack = 0, spill_stores = 0, spill_loads = 0}"
        text = re.sub(r'(?m)^(family = .*)$', rf"\1\n{use}", text)
        text = text.replace("\nrows = ", "\nnumber = 2\nrows = ", 1)
        # Adds what this plan lacks: scratch, weights of several tensors, tensor maps, a kernel with dynamic shared memory, and tokens that end a text.
        text = re.sub(r'(\{kernel = "attention__\w+(?<!_last)__t1__cached",.*?"%attn\.0")\]', rf"\1, {SCRATCH}", text)
        if "scale = " not in text:
            for old, new in RECIPES.items():
                text = text.replace(old, new)
        text = text.replace("# What a runtime calls", ORIGIN + "\n# What a runtime calls", 1)
        text = text.replace('name = "embed__f32__n32"\n', 'name = "embed__f32__n32"\ncluster = 1\nphases = []\n' + MAPS)
        text = text.replace("threads = 64,", "threads = 64, dynamic_shared = 1024, cooperative = true,", 1).replace("eos = []", "eos = [1, 28]", 1)
        with open(os.path.join(plan, "plan.toml"), "w") as file:
            file.write(text)
        return text

    def read(self, text):
        """The program's messages about a plan with this plan.toml. Safe to call from several threads."""
        folder = tempfile.mkdtemp(prefix="plan-", dir=self.folder)
        for name in ("kernels", "cubin"):
            os.symlink(os.path.join(self.original, "plan", name), os.path.join(folder, name))
        with open(os.path.join(folder, "plan.toml"), "w") as file:
            file.write(text)
        result = run_kiln("dump", folder, "--what", "resources")
        result.err = result.err.replace(folder + "/", "")
        return result

    def assert_all_refused(self, cases):
        """`cases`: a description, a text, and a pattern for the message after the file's name."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            results = pool.map(self.read, [text for _, text, _ in cases])
        for (what, text, message), result in zip(cases, results):
            with self.subTest(what=what):
                self.assertNotEqual(text, self.text, "nothing was changed")
                self.assertEqual(result.code, 1, result.err)
                self.assertRegex(result.err, r"\Aplan\.toml:" + message)
                self.assertEqual(result.out, b"")

    def at(self, site, message):
        return re.escape(plantext.position(self.text, site.start)) + ": error: " + message

    def samples(self):
        """The first and the last site of every kind."""
        found = {}
        for site in self.sites:
            found.setdefault(site.pattern, []).append(site)
        return [site for group in found.values() for site in (group[0], group[-1])[: len(group)]]

    @staticmethod
    def may_be_left_out(site):
        return site.key in OPTIONAL or site.pattern in OPTIONAL_IN

    @staticmethod
    def names_its_own(site):
        """Whether any key may occur in the site's table."""
        return site.path[0] == "dims" or site.path[-2:-1] == ("constants",)

    def one(self, *path):
        """The value at a path; "*" matches any index."""
        return next(site for site in self.sites
                    if len(site.path) == len(path) and all(b in ("*", a) for a, b in zip(site.path, path)))

    def changes(self, cases):
        """Cases from (path, new value, message)."""
        return [(f"{path} = {value[:60]}", plantext.replace(self.text, self.one(*path), value),
                 self.at(self.one(*path), message)) for path, value, message in cases]

    def changes_elsewhere(self, cases):
        """Cases whose error is reported at another value."""
        return [(f"{path} = {value}", plantext.replace(self.text, self.one(*path), value), r"\d+:\d+: error: " + message)
                for path, value, message in cases]


class Mutations(PlanTest):
    options = ("--strategy", "fusion=on,graphs=off,copies=first,launches=serial,parameters=constant", "--draft-tokens", 3)

    def test_the_plan_is_good(self):
        result = self.read(self.text)
        self.assertEqual(result.code, 0, result.err)
        # The tests below cover every key that a plan can have.
        keys = {site.key for site in self.sites}
        self.assertLessEqual(OPTIONAL | set(FORMULAS), keys)

    def test_every_key_removed(self):
        cases = []
        for site in self.samples():
            if site.is_member and not self.may_be_left_out(site) and not self.names_its_own(site):
                cases.append((f"no {site.path}", plantext.remove(self.text, site),
                              rf"\d+:\d+: error: \w+: missing key '{site.key}'"))
        for header, message in (("model", "1:1: error: plan: missing key 'model'"), ("dims", "22:1: error: model: unknown key 'B'")):
            cases.append((header, self.text.replace(f"[{header}]\n", ""), message))
        self.assertGreater(len(cases), 40)
        self.assert_all_refused(cases)

    def test_what_an_optional_key_said(self):
        cases = [(f"no {path}", plantext.remove(self.text, self.one(*path)), r"\d+:\d+: error: " + message) for path, message in (
            (("weights", "*", "transpose"), r"shape: weight '.*': expected a packed shape of \[32,96\], got \[96,32\]"),
            (("weights", "*", "pad"), r"shape: weight 'wte.weight': expected a packed shape of \[29,32\], got \[64,32\]"),
            (("weights", "*", "sum"), r"shape: weight 'h.0.mlp.c_fc.weight': expected a packed shape of \[32,128\], got \[128\]"),
            (("functions", "*", "steps", "*", "workspace"), "arguments: '@workspace' is not defined"),
            (("functions", "*", "steps", "*", "counters"), "arguments: '@counters' is not defined"),
            (("functions", "*", "steps", "*", "mailboxes"), "arguments: '@mailboxes' is not defined"),
            (("entries", "prefill"), "sample: expected entries prefill and decode beside it"),
            (("entries", "decode"), "verify: expected entry decode beside it"),
            (("dims", "B"), "shape: no value for dim 'B'"))]
        for table, message in (("weights", "arguments: '%wte' is not defined"), ("states", "arguments: '%k_cache.0' is not defined"),
                               ("kernels", "kernel: no kernel 'embed__f32__n32'"),
                               ("functions", "plan: missing key 'functions'")):
            text = re.sub(rf"(?ms)^\[\[{table}\]\].*?(?=^\[\[(?!{table})|\Z)", "", self.text)
            cases.append((f"no {table}", text, r"\d+:\d+: error: " + message))
        self.assert_all_refused(cases)

    def test_every_type(self):
        kinds = {"str": '"x"', "int": "3", "float": "1.5", "bool": "true", "date": "1979-05-27", "array": "[]", "table": "{}"}
        cases = []
        for site in self.samples():
            value = self.text[site.start : site.end]
            own = {'"': "str", "[": "array", "{": "table", "t": "bool"}.get(value[0], "int")
            for kind, other in kinds.items():
                if kind != own:
                    cases.append((f"{site.path} = {other}", plantext.replace(self.text, site, other),
                                  self.at(site, rf"{site.key}: expected ")))
        self.assertGreater(len(cases), 300)
        self.assert_all_refused(cases)

    def test_unknown_keys(self):
        cases = []
        for site in self.samples():
            if site.is_member and site.key != "sm_90a" and not self.names_its_own(site):
                text = self.text[: site.key_start] + "other = 1" + (", " if "{" in self.line_before(site) else "\n")
                cases.append((f"before {site.path}", text + self.text[site.key_start :],
                              re.escape(plantext.position(self.text, site.key_start)) + r": error: \w+: unknown key 'other'"))
        self.assert_all_refused(cases)

    def line_before(self, site):
        return self.text[self.text.rfind("\n", 0, site.key_start) + 1 : site.key_start]

    def test_numbers(self):
        big = str(2**63 - 1)
        cases = []
        for path, key, values in (
                (("format",), "format", ("0", "7", "99", "-1", big)), (("model", "context"), "context", ("0", "-1", big)),
                (("model", "vocabulary"), "vocabulary", ("0", "-1", big)), (("model", "layers"), "layers", ("0", "-1", big)),
                (("model", "eos", 0), "eos", ("-1", "29", big)),
                (("dims", "B"), "B", ("[0, 64]", "[64, 1]", f"[1, {big}]", "[1]", "[1, 2, 3]", '["1", 64]', "[1.0, 64]", "[-1, 64]")),
                (("weights", 0, "shape"), "shape", ("[0, 32]", "[-64, 32]", "[28, 32]", "[64]", "[64, 32, 1]", "[]", f"[{big}, 32]")),
                (("weights", 0, "source_shape"), "source_shape", ("[0, 32]", "[-29, 32]")),
                (("weights", 0, "source_shape"), "shape", ("[65, 32]", "[29]", "[]", f"[{big}, 32]")),
                (("weights", "*", "add", "matrix_shape"), "matrix_shape", ("[0, 96]", "[-32, 96]")),
                (("weights", "*", "add", "matrix_shape"), "shape", ("[32, 95]", "[96]", "[]", f"[{big}, 96]")),
                (("kernels", 0, "resources", "sm_90a", "registers"), "registers", ("-1",)),
                (("kernels", 0, "resources", "sm_90a", "spill_loads"), "spill_loads", ("-1",)),
                (("kernels", "*", "rows"), "rows", ("0", "-1")), (("kernels", "*", "number"), "number", ("0", "-1")),
                (("kernels", 0, "cluster"), "cluster", ("0", "-1", "9", "16", big)),
                (("kernels", 0, "ops", 0, "lines"), "lines", ("[0, 1]", "[-1]", "[2, 1]", "[1, 1]", "[1, 2, 2]")),
                (("kernels", 0, "maps", 0, "argument"), "argument", ("-1",)), (("kernels", 0, "maps", 1, "argument"), "argument", ("0", "1")),
                (("kernels", 0, "maps", 0, "box"), "box", ("[]", '["0", "2", "4", "1"]', '["32", "0", "4", "1"]', '["32", "-1", "4", "1"]', '["32"]', '["32", "2", "4", "1", "1"]', f'["{big}", "2", "4", "1"]')),
                (("functions", 0, "buffers", 0, "live"), "live", ("[1, 0]", "[0]", "[0, 1, 2]", "[-1, 4]", "[0, 10]", f"[0, {big}]", "[9, 9]")),
                (("functions", 0, "steps", 0, "threads"), "threads", ("0", "-1", "1025", big)),
                (("functions", 0, "steps", "*", "dynamic_shared"), "dynamic_shared", ("-1", "232449", big)),
                (("functions", 0, "steps", "*", "variants", 0, "rows"), "rows", ("0", "-1")),
                (("functions", 0, "steps", "*", "variants", 0, "threads"), "threads", ("0", "1025"))):
            for value in values:
                cases.append((f"{path} = {value}", plantext.replace(self.text, self.one(*path), value), rf"\d+:\d+: error: {key}: "))
        cases.append(("past 64 bits", self.text.replace("context = 24", "context = 9223372036854775808"), r"\d+:\d+: error: not valid TOML"))
        self.assert_all_refused(cases)

    def test_origin(self):
        digest = "expected the 64 hexadecimal digits of a SHA-256, got "
        self.assert_all_refused(self.changes([
            (("origin", "path"), '""', 'path: expected the path of a model, got ""'),
            *((("origin", key), value, f"{key}: {digest}{value}") for key in ("weights", "vocabulary")
              for value in ('""', '"0"', f'"{"0" * 63}"', f'"{"0" * 65}"', f'"{"g" * 64}"'))]))

    def test_entries(self):
        entry = lambda *path: ("entries", *path)
        self.assert_all_refused(self.changes([
            (entry("batch"), '"X"', "batch: expected a dim of the plan, got 'X'"),
            (entry("tokens"), '"X"', "tokens: expected a dim of the plan, got 'X'"),
            (entry("tokens"), '"B"', "tokens: expected another dim than that of the batch, got 'B'"),
            (entry("prefill", "tokens"), '"none"', "tokens: expected an argument of @prefill, got 'none'"),
            (entry("prefill", "tokens"), '"lengths"',
             r"tokens: expected an argument of type i32\[B,T\], got 'lengths' of type i32\[B\]"),
            (entry("prefill", "lengths"), '"tokens"',
             r"lengths: expected an argument of type i32\[B\], got 'tokens' of type i32\[B,T\]"),
            (entry("prefill", "logits"), '"x.0"', "logits: expected the first result of @prefill, got 'x.0'"),
            (entry("decode", "tokens"), '"positions"', r"tokens: expected an argument of type i32\[B,1\]"),
            (entry("decode", "positions"), '"tokens"', r"positions: expected an argument of type i32\[B\]"),
            (entry("score", "targets"), '"none"', "targets: expected an argument of @score, got 'none'"),
            (entry("score", "log_probabilities"), '"wte"', "log_probabilities: expected the first result of @score"),
            (entry("score", "best_tokens"), '"log_prob"', "best_tokens: expected the second result of @score, got 'log_prob'"),
            (entry("score", "best_log_probabilities"), '"best"', "best_log_probabilities: expected the third result of @score"),
            (entry("sample", "logits"), '"rows"', r"logits: expected an argument of type f32\[B,29\]"),
            (entry("sample", "settings"), '"none"', "settings: expected an argument of @sample, got 'none'"),
            (entry("sample", "ring"), '"none"', "ring: expected an argument of @sample, got 'none'"),
            (entry("sample", "rows"), '"none"', "rows: expected an argument of @sample, got 'none'"),
        ]))
        functions = tomllib.loads(self.text)["functions"]
        sample = [function["name"] for function in functions].index("sample")
        settings = [argument["name"] for argument in functions[sample]["arguments"]].index("settings")
        shape = ("functions", sample, "arguments", settings, "shape")
        self.assert_all_refused(self.changes_elsewhere([
            (shape, '["18"]', r"sample: argument 'settings': expected B first, got i32\[18\]"),
            (("model", "context"), "25", "T: expected an upper bound of at least the context, 25, got 24"),
            (("model", "vocabulary"), "30", r"logits: expected logits f32\[B,1,30\], a row for each of the 30 tokens"),
            (("functions", 0, "name"), '"other"', "prefill: the plan has no function of this name"),
            (("functions", 0, "results"), "[]", "logits: expected the first result of @prefill, got 'logits'"),
            (("states", 0, "shape"), '["2", "B", "24", "16"]',
             "shape: expected B first, then numbers: each sequence has a share of a state"),
            (("states", 0, "shape"), "[]", "shape: expected B first, then numbers: each sequence has a share of a state"),
            (("dims", "B"), "[2, 64]", "B: expected a lower bound of 1, got 2"),
        ]))
        # A plan of other functions has no entries.
        start, end = self.text.index("# What a runtime calls"), self.text.index("# Packed weights")
        result = self.read(self.text[:start] + self.text[end:])
        self.assertEqual(result.code, 0, result.err)

    def test_rising_rows(self):
        rows = self.one("functions", 0, "steps", "*", "variants", 1, "rows")
        self.assert_all_refused([
            ("the same number twice", plantext.replace(self.text, rows, "1"),
             self.at(rows, "rows: expected more than the variant before it has, got 1"))])

    def test_tokens_of_variants(self):
        self.assertIn("variants = [{rows = 1, ", self.text)
        def text(dim, first, second):
            before, rest = self.text.split("variants = [{rows = 1, ", 1)
            return f"{before}{dim}variants = [{{{first}rows = 1, {rest.replace('{rows = ', '{' + second + 'rows = ', 1)}"
        self.assertEqual(self.read(text('tokens = "T", ', "tokens = 8, ", "")).code, 0)
        self.assertEqual(self.read(text('tokens = "T", ', "tokens = 8, ", "tokens = 8, ")).code, 0)
        self.assert_all_refused([
            (what, text(*parts), r"\d+:\d+: error: " + message) for what, parts, message in (
                ("no dim", ("", "tokens = 8, ", ""), "steps: missing key 'tokens'"),
                ("another dim", ('tokens = "X", ', "tokens = 8, ", ""), "tokens: expected a dim of the plan or past, got 'X'"),
                ("no tokens", ('tokens = "T", ', "tokens = 0, ", ""), "tokens: "),
                ("fewer tokens", ('tokens = "T", ', "tokens = 8, ", "tokens = 4, "),
                 "variants: expected at least as many tokens as the variant before it has, got 4 after 8"),
                ("tokens behind any", ('tokens = "T", ', "", "tokens = 8, "),
                 "variants: expected at least as many tokens as the variant before it has, got 8 after any number"),
                ("a bound of a dim only", ('tokens = "T", ', "", ""), "steps: unknown key 'tokens'"))])

    def test_every_formula(self):
        cases = []
        for site in self.samples():
            if site.key not in FORMULAS or site.pattern in NO_FORMULAS or self.text[site.start] != '"':
                continue
            for formula in BAD_FORMULAS:
                cases.append((f"{site.path} = {formula[:40]}", plantext.replace(self.text, site, formula), self.at(site, site.key + ": ")))
        self.assertGreater(len(cases), 100)
        self.assert_all_refused(cases)

    def test_launches(self):
        step = ("functions", 0, "steps", 0)
        self.assert_all_refused(self.changes([
            (step + ("grid", 0), '"0*B"', r"grid: expected a value from 1 to 2147483647, got '0' = 0 with B = 1, T = 1"),
            (step + ("grid", 0), '"4294967296"', "grid: expected a value from 1 to 2147483647, got "),
            (step + ("grid", 0), '"B*1000000000"', "grid: expected a value from 1 to 2147483647, got '.*' = 64000000000 with B = 64, T = 24"),
            (step + ("grid", 1), '"65536"', "grid: expected a value from 1 to 65535, got "),
            (step + ("grid", 2), '"4000*T"', "grid: expected a value from 1 to 65535, got '4000.T' = 96000 with B = 64, T = 24"),
            (step + ("grid",), '["1", "1"]', "grid: expected three extents, got an array"),
            (step + ("grid",), '["1", "1", "1", "1"]', "grid: expected three extents, got an array"),
            (("functions", "*", "steps", "*", "counters"), '"4294967296"', "counters: expected a value from 0 to 2147483647, got "),
            (("functions", 0, "steps", "*", "variants", 0, "grid", 0), '"0"', "grid: expected a value from 1 to "),
        ]))

    def test_phases(self):
        """There are words for the times of all phases of all blocks."""
        phases, grid = self.one("kernels", 0, "phases"), self.one("functions", 0, "steps", 0, "grid")
        timed = plantext.replace(self.text, phases, '["first", "last"]')
        self.assert_all_refused([("no mailboxes", timed, self.at(grid, "grid: expected mailboxes with a word for each phase of each block"))])

    def test_clusters(self):
        """Launches have whole clusters, on GPUs that have them."""
        cluster, grid = self.one("kernels", 0, "cluster"), self.one("functions", 0, "steps", 0, "grid", 0)
        two = plantext.replace(self.text, cluster, "2")
        with_grid = lambda extents: re.sub(r'(kernel = "embed__f32__n32", grid = )\[[^]]*\]', rf"\1{extents}", two)
        for good in ('["2*T", "1", "1"]', '["ceildiv(B,2)*2", "T", "1"]'):
            result = self.read(with_grid(good))
            self.assertEqual(result.code, 0, result.err)
        whole = with_grid('["2*T", "1", "1"]')
        self.assert_all_refused([
            *self.changes([(("kernels", 0, "cluster"), "16", "cluster: expected an integer from 1 to 8, got 16")]),
            ("any number of blocks", with_grid('["B*T", "2", "1"]'), self.at(grid, "grid: expected a multiple of 2, got 1 with B = 1, T = 1")),
            ("an older target", whole.replace('target = "sm_90a"', 'target = "sm_80"'), self.at(cluster, "cluster: expected 1 in a plan for sm_80, as GPUs before sm_90 have no clusters, got 2")),
            ("one of two targets", whole.replace('cubins = ["sm_90a"]', 'cubins = ["sm_90a", "sm_89"]'), r"\d+:\d+: error: cluster: expected 1 in a plan for sm_89")])

    def test_tensor_maps(self):
        weight, buffer = ("kernels", 0, "maps", 0), ("kernels", 0, "maps", 1)
        self.assert_all_refused(self.changes([
            (weight + ("extents",), '["32"]', "extents: expected 2 to 5 extents, got 1"),
            (weight + ("extents",), "[" + ", ".join(['"1"'] * 6) + "]", "extents: expected 2 to 5 extents, got 6"),
            (weight + ("strides",), '["128", "256"]', "strides: expected 3 strides, those of all dimensions but the first, got 2"),
            (weight + ("extents", 1), '"0"', "extents: expected a value from 1 to 2147483647, got '0' = 0 with B = 1, T = 1"),
            (weight + ("extents", 1), '"2147483648"', "extents: expected a value from 1 to 2147483647, got "),
            (buffer + ("extents", 1), '"B*T*10000000"', "extents: expected a value from 1 to 2147483647, got .* = 15360000000 with B = 64, T = 24"),
            (weight + ("strides", 0), '"0"', "strides: expected a value from 16 to 1099511627775, got "),
            (weight + ("strides", 0), '"1099511627776"', "strides: expected a value from 16 to 1099511627775, got "),
            (weight + ("strides", 0), '"136"', "strides: expected a multiple of 16, got 136 with B = 1, T = 1"),
            (weight + ("strides", 0), '"16*ceildiv(T,16)+8*min(T+T,ceildiv(T+25,25)*3)"', "strides: expected a multiple of 16"),
            (weight + ("box",), '["32", "2", "4"]', "box: expected 4 extents, one for each of the tensor's, got 3"),
            (weight + ("box", 0), '"64"', "box: expected rows of 128 bytes, 32 elements, got 64"),
            (weight + ("box", 0), '"16"', "box: expected rows of 128 bytes, 32 elements, got 16"),
            (weight + ("box", 1), '"257"', "box: expected a value from 1 to 256, got '257' = 257"),
            (weight + ("box",), '["32", "256", "8", "1"]', "box: expected a value from 1 to 232448, got .* = 262144"),
            (buffer + ("box", 1), '"8*ceildiv(B*T,8)"', "box: expected a value from 1 to 256, got .* = 1536 with B = 64, T = 24"),
            (buffer + ("box", 0), '"T"', "box: expected rows of 128 bytes, 32 elements, got T"),
            (weight + ("dtype",), '"i64"', "dtype: expected f32, f16, bf16 or i32, got "),
            (buffer + ("argument",), "1", "argument: expected an argument behind that of the map before it, got 1"),
            (buffer + ("argument",), "0", "argument: expected an argument behind that of the map before it, got 0"),
        ]))
        self.assert_all_refused(self.changes_elsewhere([
            (weight + ("dtype",), '"bf16"', "box: expected rows of 128 bytes, 64 elements, got 32"),
        ]))

    def test_arrays(self):
        first, second = ("kernels", 0, "arrays", 0), ("kernels", 0, "arrays", 1)
        kernel = "kernel 'embed__f32__n32'"
        self.assert_all_refused(self.changes([
            (second + ("argument",), "1", "argument: expected an argument behind those of the array before it, got 1"),
        ]))
        self.assert_all_refused(self.changes_elsewhere([
            (first + ("size",), "3", "size: expected an array in front of argument 3, which is a map of its own, got 3 arguments from 1 on"),
            (first, "{argument = 0, size = 2}", "size: expected an array in front of argument 1, which is a map of its own, got 2 arguments from 0 on"),
            (second + ("size",), "3", f"arguments: expected the name of a tensor, of which {kernel} takes an array of tensors, got 'B'"),
            (second + ("size",), "9", f"arguments: expected the name of a tensor, of which {kernel} takes an array of tensors, got 'B'"),
        ]))

    def test_arguments_of_tensor_maps(self):
        """A map must fit the tensor of every launch."""
        weight, buffer = ("kernels", 0, "maps", 0), ("kernels", 0, "maps", 1)
        kernel = "kernel 'embed__f32__n32'"
        past = "arguments: the kernel's tensor map reaches past "
        rows = "(min(T,4)+10*ceildiv(T,23))"  # at least T for 1 and for 24, but less for 23
        self.assert_all_refused(self.changes_elsewhere([
            (buffer + ("argument",), "6", f"arguments: expected argument 6, of which {kernel} takes a tensor map, got 6 arguments"),
            (buffer + ("argument",), "5", f"arguments: expected the name of a tensor, of which {kernel} takes a tensor map, got 'T'"),
            (weight + ("argument",), "0", f"arguments: expected a tensor of f32, as in the map of {kernel}, got '%tokens' of i32"),
            (weight + ("dtype",), '"i32"', f"arguments: expected a tensor of i32, as in the map of {kernel}, got '%wte' of f32"),
            (weight + ("argument",), "2", past + "'%wpe' with B = 1, T = 1"),
            (weight + ("extents", 0), '"33"', past + "'%wte' with B = 1, T = 1"),
            (weight + ("extents", 3), '"9"', past + "'%wte' with B = 1, T = 1"),
            (weight + ("strides", 2), '"1040"', past + "'%wte' with B = 1, T = 1"),
            (buffer + ("extents", 1), '"64*T"', past + "'%x.0' with B = 1, T = 1"),
            (buffer + ("extents", 1), '"B*T+1"', past + "'%x.0' with B = 1, T = 1"),
            (buffer + ("extents", 1), f'"B*{rows}"', past + "'%x.0', or may|" + past + "'%x.0' with "),
            (buffer + ("strides", 0), '"128*B"', past + "'%x.0' with B = 64, T = 24"),
            (("functions", 0, "steps", 0, "arguments", 3), '"%wpe"', past + "'%wpe' with B = 64, T = 24"),
        ]))
        # Gaps at the end of the last row are no part of the map, and boxes may be larger than the tensor.
        text = plantext.replace(self.text, self.one(*weight, "box"), '["32", "256", "2", "1"]')
        text = plantext.replace(text, self.one(*weight, "strides"), '["4096", "1024", "112"]')
        result = self.read(text)
        self.assertEqual(result.code, 0, result.err)

    def test_states_behind_tensor_maps(self):
        """A call may start at the share of any sequence, which must be aligned."""
        text = plantext.replace(self.text, self.one("functions", 0, "steps", 0, "arguments", 3), '"%k_cache.0"')
        text = plantext.replace(text, self.one("states", 0, "shape"), '["B", "2", "24", "17"]')
        text = plantext.replace(text, self.one("kernels", 0, "maps", 1, "extents"), '["32", "B"]')
        result = self.read(text)
        self.assertEqual(result.code, 0, result.err)
        odd = text.replace('["B", "2", "24", "17"]', '["B", "2", "25", "17"]')
        self.assert_all_refused([("odd", odd, r"\d+:\d+: error: arguments: expected a tensor at a multiple of 16 bytes for the map of kernel 'embed__f32__n32', got '%k_cache.0'")])

    def test_blocks(self):
        """A grid must not have more blocks than the launch's arguments have bytes."""
        grid = ("functions", 0, "steps", 0, "grid")
        message = "grid: expected blocks with a byte of the arguments each, at most "
        twos = "*".join(["ceildiv(T+22,24)"] * 4)
        self.assert_all_refused(self.changes([
            (grid, '["2147483647", "1", "1"]', message + "11396, got 2147483647 with B = 1, T = 1"),
            (grid, '["ceildiv(2147483647*B,2048)", "1", "1"]', message + "11396, got 1048576 with B = 1, T = 1"),
            (grid, '["65535", "65535", "65535"]', message + "11396, got 281462092005375 with B = 1, T = 1"),
            (grid, '["B*1000000", "1000*B", "1000*B"]', message + "11396, got 1000000000000 with B = 1, T = 1"),
            # These are enough bytes for 1 token and for 24, where twos is 1 and 16.
            (grid, f'["11264+132*B*{twos}", "1", "1"]', message + "'.*' whatever the dims are, got '11264.132.B"),
            (("functions", 0, "steps", "*", "variants", 0, "grid"), '["100000000", "1", "1"]', message + "4612, got 100000000 with "),
        ]))

    def test_lists_that_are_too_long(self):
        """Limits the lists that become one formula, since functions that walk over formulas recurse."""
        step = ("functions", 0, "steps", 0, "arguments")
        shapes = [(path, "[" + ", ".join(['"1"'] * count) + "]", f"shape: expected at most 16 extents, got {count}")
                  for path in (("states", 0, "shape"), ("functions", 0, "arguments", 0, "shape"), ("functions", 0, "buffers", 0, "shape"))
                  for count in (17, 100000)]
        self.assert_all_refused(self.changes([
            *shapes, (step, "[" + ", ".join(['"%x.0"'] * 4096) + "]", "arguments: expected at most 4095, got 4096")]))

    def test_costs_that_do_not_add_up(self):
        self.assert_all_refused([
            (key, plantext.replace(self.text, self.one("functions", 0, "steps", 0, key), '"9223372036854775807"'),
             rf"\d+:\d+: error: {key}: the steps' sum is past 64 bits with this step's '") for key in ("bytes", "flops")])

    def test_names(self):
        step = ("functions", 0, "steps", 0)
        self.assert_all_refused(self.changes([
            (("compiler",), '"0.0.9"', "compiler: expected a plan of Kiln [0-9.]+, got one of Kiln 0.0.9; compile the model again"),
            (("target",), '"../x"', "target: expected a target, like sm_90a, got '../x'"),
            (("target",), '""', "target: expected a target, like sm_90a, got ''"),
            (("cubins", 0), '"../x"', "cubins: expected a target, like sm_90a, got '../x'"),
            (("dtype",), '"f64"', 'dtype: expected f32, f16, bf16 or i32, got "f64"'),
            (("weights", 1, "name"), '"wte"', "name: 'wte' is defined twice"),
            (("states", 1, "name"), '"k_cache.0"', "name: 'k_cache.0' is defined twice"),
            (("states", 0, "name"), '"wte"', "name: 'wte' is defined twice"),
            (("kernels", 1, "name"), '"embed__f32__n32"', "name: kernel 'embed__f32__n32' is defined twice"),
            (("kernels", 0, "name"), '"none"', "name: the file kernels/none.cu of kernel 'none' is missing"),
            (("kernels", 0, "name"), '"../plan"', "name: expected an identifier, got '../plan'"),
            (("kernels", 0, "name"), '""', "name: expected an identifier, got ''"),
            (("kernels", "*", "ops", 0, "value"), '"a b"', "value: expected an identifier, got 'a b'"),
            (("kernels", 1, "ops", 1, "value"), '"ln_1"', "value: 'ln_1' is defined twice"),
            (("functions", 1, "name"), '"prefill"', "name: function 'prefill' is defined twice"),
            (("functions", 0, "arguments", 1, "name"), '"tokens"', "name: 'tokens' is defined twice"),
            (("functions", 0, "arguments", 0, "name"), '"wte"', "name: 'wte' is defined twice"),
            (("functions", 0, "buffers", 1, "name"), '"x.0"', "name: 'x.0' is defined twice"),
            (("functions", 0, "buffers", 1, "name"), '"tokens"', "name: 'tokens' is defined twice"),
            (("functions", 0, "results", 0), '"none"', "results: 'none' is not defined"),
            (("functions", 0, "results", 0), '"x.0"', "results: expected a buffer that is live to the end, got 'x.0'"),
            (step + ("kernel",), '"none"', "kernel: no kernel 'none'"),
            (("functions", 0, "steps", "*", "variants", 0, "kernel"), '"none"', "kernel: no kernel 'none'"),
            (("functions", 0, "steps", "*", "constants", "*"), '"none"', "ln_1_w: no weight 'none'"),
            (("functions", 0, "steps", "*", "constants"), '{a = "x.0"}', "constants: no weight 'x.0'|a: no weight 'x.0'"),
            (("functions", 0, "steps", "*", "constants"), "{" + ", ".join(f'{c} = "wte"' for c in "abcdefghi") + "}",
             "constants: expected at most 65536 bytes, got 73728"),
            (step + ("arguments", 0), '"%none"', "arguments: '%none' is not defined"),
            (step + ("arguments", 0), '"tokens"', "arguments: 'tokens' is not defined"),
            (step + ("arguments", 0), '"%B"', "arguments: '%B' is not defined"),
            (step + ("arguments", 0), '"@workspace"', "arguments: '@workspace' is not defined"),
            (step + ("arguments", 0), '"@other"', "arguments: '@other' is not defined"),
            (step + ("arguments", 0), '""', "arguments: '' is not defined"),
            (step + ("arguments", 0), '"%logits"', "arguments: buffer '%logits' is not live at step 0"),
        ]))

    def test_ptx(self):
        plain = self.text.replace(MAPS, "")
        with_ptx = lambda value: plain.replace('cubins = ["sm_90a"]', f'cubins = ["sm_90a"]\nptx = {value}')
        wrong = lambda name: f"ptx: expected a virtual architecture, like compute_80, got '{name}'"
        result = self.read(with_ptx("[]"))
        self.assertEqual(result.code, 0, result.err)
        self.assert_all_refused([
            *((f"ptx for {name}", with_ptx(f'["{name}"]'), r"\d+:\d+: error: " + re.escape(wrong(name)))
              for name in ("sm_80", "", "compute_90a", "compute_", "compute_x9", "compute_80/..")),
            ("a GPU's cubin", plain.replace('cubins = ["sm_90a"]', 'cubins = ["compute_80"]'),
             r"\d+:\d+: error: cubins: expected a target, like sm_90a, got 'compute_80'"),
            ("no array", with_ptx('"compute_80"'), r"\d+:\d+: error: ptx: "),
            ("twice", with_ptx('["compute_80", "compute_80"]'), r"\d+:\d+: error: ptx: 'compute_80' is given twice"),
            ("no file", with_ptx('["compute_80"]'),
             r"\d+:\d+: error: name: the file ptx/compute_80/embed__f32__n32.ptx of kernel 'embed__f32__n32' is missing"),
            ("clusters", with_ptx('["compute_80"]').replace("cluster = 1", "cluster = 2"),
             r"\d+:\d+: error: cluster: expected 1 in a plan for compute_80")])

    def test_names_that_others_miss(self):
        self.assert_all_refused(self.changes_elsewhere([
            (("cubins",), '[]', "sm_90a: expected one of the targets in cubins"),
            (("cubins",), '["sm_90a", "sm_80"]',
             "name: the file cubin/sm_80/embed__f32__n32.cubin of kernel 'embed__f32__n32' is missing"),
            (("cubins",), '["sm_90a", "sm_90a"]', "cubins: 'sm_90a' is given twice"),
            (("cubins",), '["sm_90a"]\nptx = ["compute_80"]',
             "maps: expected none in a plan with PTX for later GPUs, as kernels with tensor maps run on sm_90a alone"),
            (("weights", 0, "dtype"), '"i32"', "shape: weight 'wte.weight': expected to pack to a float type, got i32"),
            (("weights", "*", "sum"), '"i32"', "shape: weight 'h.0.mlp.c_fc.weight': expected to round to a float type before the sum, got i32"),
            (("weights", "*", "add"), '{vector = "v", matrix = "m", matrix_shape = [96, 32]}',
             r"shape: weight 'h.0.attn.c_attn.bias': expected a matrix of 96 columns in the product to add, got shape \[96,32\]"),
            (("weights", 0, "name"), '"other"', "arguments: '%wte' is not defined"),
            (("states", 0, "name"), '"other"', "arguments: '%k_cache.0' is not defined"),
            (("functions", "*", "steps", "*", "counters"), '"0"', "arguments: '@counters' is not defined"),
            (("functions", 0, "arguments", 1, "name"), '"other"', "arguments: '%lengths' is not defined"),
            (("functions", 0, "buffers", 0, "name"), '"other"', "arguments: '%x.0' is not defined"),
        ]))

    def test_the_arena(self):
        def buffer(i):
            return ("functions", 0, "buffers", i)

        step = ("functions", 2, "steps", 2)
        at = " with B = 1, T = 1"
        self.assert_all_refused(self.changes([
            (buffer(1) + ("offset",), '"8"', "offset: expected a multiple of 16, got 8" + at),
            (buffer(1) + ("offset",), '"B+15"', "offset: buffer 'q_last.0' overlaps|offset: expected a multiple of 16, got 79 with B = 64"),
            (buffer(1) + ("offset",), '"768*B+384*B*T"', "offset: buffer 'q_last.0' reaches past the arena: expected an end of at most 896, got 1280" + at),
            (buffer(1) + ("offset",), '"768*B"', "offset: buffer 'q_last.0' overlaps buffer 'x.0' while both are live" + at),
            (buffer(1) + ("offset",), '"752*B"', "offset: buffer 'q_last.0' overlaps buffer 'x.0' while both are live" + at),
            (step + ("workspace", "offset"), '"8"', "offset: expected a multiple of 16, got 8" + at),
            (step + ("workspace", "offset"), '"640*B+16"', "offset: workspace reaches past the arena: expected an end of at most 768, got 816" + at),
            (step + ("workspace", "offset"), '"128*B"', "offset: workspace overlaps buffer 'q.0' while both are live" + at),
        ]))
        self.assert_all_refused(self.changes_elsewhere([
            # Right for one token, but wrong for more.
            (buffer(0) + ("offset",), '"256*B"', "offset: buffer 'mid.0' overlaps buffer 'x.0' while both are live with B = 64, T = 24"),
            (("functions", 0, "arena"), '"767*B+128*B*T"', "offset: buffer 'x.0' reaches past the arena"),
            (("functions", 0, "arena"), '"0"', "offset: buffer 'x.0' reaches past the arena"),
            (("functions", 0, "arena"), '"1152"', "offset: buffer '.*' reaches past the arena: expected an end of at most 1152, got .* with B = 64, T = 24"),
            (buffer(1) + ("shape", 3), '"64"', "offset: buffer 'attn.0' overlaps buffer 'q_last.0' while both are live"),
            (buffer(0) + ("live",), '[1, 4]', "arguments: buffer '%x.0' is not live at step 0"),
            (buffer(0) + ("live",), '[0, 2]', "arguments: buffer '%x.0' is not live at step 3"),
            (buffer(2) + ("live",), '[2, 4]', "offset: buffer 'act.0' overlaps buffer 'attn.0' while both are live"),
            (buffer(0) + ("live",), '[2, 4]', "live: expected buffers in the order of their first step"),
            (buffer(6) + ("live",), '[6, 6]', "results: expected a buffer that is live to the end, got 'logits'"),
            (step + ("workspace", "bytes"), '"400*B"', "offset: workspace reaches past the arena: expected an end of at most 768, got 784"),
            (step + ("workspace", "bytes"), '"10000"', "offset: workspace reaches past the arena: expected an end of at most 768, got 10384"),
        ]))

    def test_between_the_ends_of_the_dims(self):
        """What holds for the least and for the most tokens may be wrong in between."""
        arena, buffer = ("functions", 0, "arena"), ("functions", 0, "buffers", 1, "offset")
        workspace = ("functions", 2, "steps", 2, "workspace", "offset")
        tokens = "(min(T,4)+10*ceildiv(T,23))"  # at least T for 1 and for 24, but less for 23
        cases = []
        for changes, message in (
                (((buffer, "768*B+128*B*T+8*max(min(T,4),2)"),), "a multiple of 16 whatever the dims are, got '768.B"),
                (((workspace, "8*max(min(B,4),2)"),), "a multiple of 16 whatever the dims are, got '8.max"),
                (((arena, f"768*B+128*B*{tokens}"),), "an end of at most '768.* whatever the dims are, got '768"),
                (((buffer, f"768*B+128*B*{tokens}"), (arena, "100000*B*T")), "an end of at most '768.* whatever the dims are, got '768")):
            text = self.text
            for path, formula in changes:
                text = plantext.replace(text, self.one(*path), f'"{formula}"')
            cases.append((str(changes), text, r"\d+:\d+: error: offset: .*expected " + message))
        self.assert_all_refused(cases)

    def test_truncated(self):
        cases = []
        for end in range(0, len(self.text) - 1, 97):
            cases.append((f"{end} bytes", self.text[:end], r"\d+:\d+: error: "))
        self.assert_all_refused(cases)

    def test_missing_files(self):
        plan = self.path("plan")
        shutil.copytree(os.path.join(self.original, "plan"), plan)
        line = plantext.position(self.text, self.one("kernels", 0, "name").start)
        for name in ("cubin/sm_90a/embed__f32__n32.cubin", "kernels/embed__f32__n32.cu"):
            os.remove(os.path.join(plan, name))
            os.makedirs(os.path.join(plan, name))  # not a file either
            self.assert_fails(f"plan/plan.toml:{line}: error: name: the file plan/{name} of kernel 'embed__f32__n32' is missing",
                              "dump", plan)
        for name in ("cubin", "kernels"):
            shutil.rmtree(os.path.join(plan, name))
            self.assert_fails(f"plan/plan.toml:{line}: error: name: the file plan/", "dump", plan)


class Verify(PlanTest):
    """The entry that plans for speculation have."""

    options = ("--draft-tokens", 3)

    def test_entry(self):
        self.assertEqual(self.read(self.text).code, 0)
        entry = lambda key: ("entries", "verify", key)
        self.assert_all_refused(self.changes([
            (entry("tokens"), '"positions"', r"tokens: expected an argument of type i32\[B,4\], got 'positions' of type i32\[B\]"),
            (entry("positions"), '"tokens"', r"positions: expected an argument of type i32\[B\], got 'tokens' of type i32\[B,4\]"),
            (entry("logits"), '"x.0"', "logits: expected the first result of @verify, got 'x.0'"),
            (("entries", "accept", "logits"), '"text"', r"logits: expected an argument of type f32\[B,4,29\], got 'text'"),
            (("entries", "accept", "guesses"), '"tokens"', r"guesses: expected an argument of type i32\[B,4\], got 'tokens'"),
            (("entries", "ngram", "starts"), '"text"', r"starts: expected an argument of type i32\[B\], got 'text'"),
            (("entries", "follow", "rows"), '"none"', "rows: expected an argument of @follow, got 'none'"),
            (("entries", "collect", "recent"), '"none"', "recent: expected an argument of @collect, got 'none'"),
            (("entries", "pretend", "odds"), '"known"', r"odds: expected an argument of type i32\[B,2\], got 'known'"),
        ]))
        # An argument has one type in all functions that work on the state of a generation.
        start = self.text.index('name = "ngram"')
        changed = self.text[:start] + self.text[start:].replace('"B", "24"]', '"B", "25"]', 1)
        self.assert_all_refused([("text", changed, r"\d+:\d+: error: ngram: argument 'text': expected type i32\[B,24\], which another "
                                  r"function has for it, got i32\[B,25\]")])
        for other in ("verify", "sample"):
            text = re.sub(rf"(?m)^{other} = .*\n", "", self.text)
            self.assert_all_refused([(other, text, r"\d+:\d+: error: accept: expected entries verify and sample beside it")])
        for old, new, message in (
                ('"B", "4"]', '"B", "T"]', r"tokens: expected an argument of type i32\[B,K\] with a number K from 2 to the context, got i32\[B,T\]"),
                ('"B", "4"]', '"B", "25"]', r"tokens: expected an argument of type i32\[B,K\] with a number K from 2 to the context, got i32\[B,25\]")):
            start = self.text.index('name = "verify"')
            changed = self.text[:start] + self.text[start:].replace(old, new, 1)
            self.assert_all_refused([(new, changed, r"\d+:\d+: error: " + message)])
        text = re.sub(r"(?m)^(decode|sample) = .*\n", "", self.text)
        self.assert_all_refused([("no decode", text, r"\d+:\d+: error: verify: expected entry decode beside it")])


class Ranks(PlanTest):
    """What plans for several GPUs have besides."""

    options = ("--ranks", 2, "--max-batch", 4096)  # large enough for exchanges of slices

    @staticmethod
    def with_cubins(plan):
        """As the compiler writes it, without cubins."""
        with open(os.path.join(plan, "plan.toml")) as file:
            return file.read()

    def changed(self, old, new):
        self.assertTrue(old in self.text, old)
        return self.read(self.text.replace(old, new, 1))

    def test_the_plan_is_good(self):
        result = self.read(self.text)
        self.assertEqual(result.code, 0, result.err)

    def test_splits(self):
        for old, new, message in (
                ("ranks = 2", "ranks = 0", "ranks: expected an integer from 1 to 64, got 0"),
                ("ranks = 2", "ranks = 1", ""),
                ("ranks = 2", "", ""),
                ("halved_rows = 1024", "halved_rows = 1", "halved_rows: expected an integer of 2 or more, got 1"),
                ("batch_invariant = 8\n", "", "halved_rows: expected a plan for several ranks whose bits are the same in any batch"),
                ("half_blocks = 8", "half_blocks = 0", "half_blocks: expected an integer of 1 or more, got 0"),
                ("unit = 16", "unit = 0", "unit: expected an integer from 1 to"),
                ("unit = 16", "unit = 17", "expected an extent of 3 parts with whole units of 17, got 96"),
                ("parts = 3", "parts = 0", "parts: expected an integer from 1 to"),
                ("{rows = true, unit = 1, parts = 1}", "{rows = 1, unit = 1, parts = 1}", "rows: expected true or false"),
                ("{rows = true, unit = 1, parts = 1}", "{rows = true, unit = 1}", "split: missing key 'parts'"),
                ("{rows = true, unit = 1, parts = 1}", "{rows = true, unit = 1, parts = 1, more = 1}", "split: unknown key 'more'"),
                ("{rows = true, unit = 1, parts = 1}", "7", "split: expected a table")):
            with self.subTest(new=new):
                result = self.changed(old, new)
                self.assertEqual(result.code, 1, result.err)
                self.assertIn(message, result.err)

    def test_arguments(self):
        for old, new, message in (
                ("inbox = ", "inboxes = ", "steps: unknown key 'inboxes'"),
                ('"@inbox1"', '"@inbox2"', "arguments: '@inbox2' is not defined"),
                ('"@inbox0", "@inbox1"', '"@inbox1", "@inbox0"', "expected the name of a tensor"),
                ('"@stop"', '"@stops"', "arguments: '@stops' is not defined"),
                ('"@rank"', '"rank"', "arguments: 'rank' is not defined"),
                ('"@1%proj_mm_part.0"', '"@2%proj_mm_part.0"', "arguments: '@2%proj_mm_part.0' is not defined"),
                ('"@1%proj_mm_part.0"', '"@1%wte"', "arguments: '@1%wte' is not defined"),
                ('"@1%proj_mm_part.0"', '"@1%logits_share_pad"', "arguments: buffer '@1%logits_share_pad' is not live at step 4"),
                ('"@1%proj_mm_part.0"', '"@0%proj_mm_part.0"', "expected the name of a tensor")):
            with self.subTest(new=new):
                result = self.changed(old, new)
                self.assertEqual(result.code, 1, result.err)
                self.assertIn(message, result.err)

    def test_a_plan_without_ranks_has_none_of_it(self):
        text = self.text.replace("ranks = 2\n", "", 1)
        self.assertEqual(self.read(text).code, 1)


class RanksOfOneKernel(PlanTest):
    """The mailboxes of ranks whose kernel for all layers exchanges sums."""

    model = "vocab_size = 29\nn_positions = 24\nn_embd = 128\nn_layer = 1\nn_head = 2\n"
    options = ("--ranks", 2, "--dtype", "bf16", "--decode", "persistent", "--max-batch", 1)
    with_cubins = Ranks.with_cubins

    def test_the_plan_is_good(self):
        result = self.read(self.text)
        self.assertEqual(result.code, 0, result.err)

    def test_arguments(self):
        start = self.text.index('name = "decode"', self.text.index("[[functions]]"))
        for old, new, message in (
                ('"@mailboxes1"', '"@mailboxes2"', "arguments: '@mailboxes2' is not defined"),
                ('"@mailboxes1"', '"@mailboxes"', "expected the name of a tensor"),
                ('"@mailboxes1"', '"@inbox1"', "arguments: '@inbox1' is not defined"),
                ('"@mailboxes0", "@mailboxes1"', '"@mailboxes1", "@mailboxes0"', "expected the name of a tensor"),
                ("mailboxes = ", "inbox = ", "arguments: '@mailboxes0' is not defined"),
                ('"@1%logits"', '"@1%others"', "arguments: '@1%others' is not defined"),
                ('"@1%logits"', '"@2%logits"', "arguments: '@2%logits' is not defined")):
            with self.subTest(new=new):
                result = self.read(self.text[:start] + self.text[start:].replace(old, new, 1))
                self.assertEqual(result.code, 1, result.err)
                self.assertIn(message, result.err)


class LibrarySteps(PlanTest):
    """Steps that a library runs; other plans have none."""

    options = ("--strategy", "precision=bf16,matmul=cublaslt,attention=cublas")

    def library(self, key):
        return next(site for site in self.sites if site.pattern == ("functions", "*", "steps", "*", key)
                    and 'library = "cublaslt.matmul"' in self.text.splitlines()[self.text.count("\n", 0, site.start)])

    def test_the_plan_is_good(self):
        result = self.read(self.text)
        self.assertEqual(result.code, 0, result.err)
        for key in ("bias", "gelu", "residual", "batch", "untransposed", "out"):
            self.library(key)

    def test_every_key_removed(self):
        cases = [(f"no {key}", plantext.remove(self.text, self.library(key)), rf"\d+:\d+: error: \w+: {message}")
                 for key, message in (("library", "missing key 'kernel'"), ("rows", "missing key 'rows'"),
                                      ("cols", "missing key 'cols'"), ("depth", "missing key 'depth'"),
                                      ("dtype", "missing key 'dtype'"), ("bias", "expected 5, the last of them @workspace"),
                                      ("residual", "expected 5, the last of them @workspace"))]
        cases.append(("no workspace", plantext.remove(self.text, self.library("workspace")),
                      r"\d+:\d+: error: arguments: '@workspace' is not defined"))
        self.assert_all_refused(cases)

    def test_every_value(self):
        cases = []
        for key, values in (("library", ('"cublas"', "1")), ("rows", ('"0*B"', '"X"', '"B*T*1000000000"', "3")),
                            ("cols", ("24", '"0"', '"X"', '"2147483648"')), ("depth", ('"0"', "1.5")), ("dtype", ('"i32"', '"f64"')),
                            ("batch", ("8", '"0"', '"X"', '"B*1000000000"')), ("untransposed", ("1",)), ("out", ('"i32"', "1")),
                            ("bias", ("1",)), ("gelu", ('"tanh"',)), ("residual", ("[]",)), ("arguments", ("[]", '["@workspace"]'))):
            site = self.library(key)
            cases += [(f"{key} = {value}", plantext.replace(self.text, site, value), self.at(site, key + ": expected |" + key + ": no"))
                      for value in values]
        self.assert_all_refused(cases)

    def test_operands_smaller_than_the_product(self):
        past = "arguments: the product reaches past '%"
        cases = [(f"{key} = {value}", plantext.replace(self.text, self.library(key), value), r"\d+:\d+: error: " + message)
                 for key, value, message in (
                     ("rows", '"B*T+1"', past + ".*': expected an end of at most 64, got 128 with B = 1, T = 1"),
                     ("cols", '"97"', past), ("depth", '"33"', past), ("rows", '"B*(min(T,4)+10*ceildiv(T,4))"', past))]
        cases.append(("batch", plantext.replace(self.text, self.library("batch"), '"2*B+1"'), r"\d+:\d+: error: " + past))
        site = self.library("arguments")
        names = self.text[site.start : site.end].split(", ")
        cases.append(("a dim", plantext.replace(self.text, site, ", ".join(['["B"', *names[1:]])), r"\d+:\d+: error: arguments: expected the name of a tensor, got 'B'"))
        self.assert_all_refused(cases)

    def test_no_gelu_before_a_residual(self):
        site = self.library("residual")
        text = self.text[: site.key_start] + "gelu = true, " + self.text[site.key_start :]
        self.assert_all_refused([("both", text, r"\d+:\d+: error: residual: expected none behind a gelu")])

    def test_kernels_have_no_place_beside_a_library(self):
        site = self.library("rows")
        for other in ('kernel = "x"', "threads = 64", "variants = []"):
            text = self.text[: site.key_start] + other + ", " + self.text[site.key_start :]
            self.assert_all_refused([(other, text, r"\d+:\d+: error: \w+: unknown key ")])


if __name__ == "__main__":
    unittest.main()
