"""Bad command lines give exit code 2 and name the option, and nothing runs. Bad prompts give exit code 1. Also tests
what the program says about itself."""

import os
import unittest

from kilntest import CONFIG, SHAKESPEARE, KilnTest, run_kiln, write_model

BAD_FLAGS = (
    ("--temperature", "-1", "expected a number from 0, got '-1'"),
    ("--temperature", "nan", "expected a number from 0, got 'nan'"),
    ("--temperature", "inf", "expected a number from 0, got 'inf'"),
    ("--temperature", "1x", "expected a number from 0, got '1x'"),
    ("--top-k", "-1", "expected an integer from 0, got '-1'"),
    ("--top-k", "1.5", "expected an integer from 0, got '1.5'"),
    ("--top-p", "0", "expected a number above 0 and at most 1, got '0'"),
    ("--top-p", "1.01", "expected a number above 0 and at most 1, got '1.01'"),
    ("--top-p", "nan", "expected a number above 0 and at most 1, got 'nan'"),
    ("--min-p", "-0.1", "expected a number from 0 to 1, got '-0.1'"),
    ("--min-p", "1.01", "expected a number from 0 to 1, got '1.01'"),
    ("--min-p", "nan", "expected a number from 0 to 1, got 'nan'"),
    ("--seed", "-1", "expected an integer from 0, got '-1'"),
    ("--max-new-tokens", "-1", "expected an integer from 0, got '-1'"),
    ("--max-new-tokens", "99999999999999999999", "expected an integer from 0, got '99999999999999999999'"),
    ("--device", "gpu", "expected auto, cpu, emulate, cuda:N, or several GPUs, cuda:0,cuda:1 or cuda:all, got 'gpu'"),
    ("--dtype", "double", "expected f32, f16, bf16, tf32, fp32 or fp16, got 'double'"),
    ("--dtype", "bf15", "expected f32, f16, bf16, tf32, fp32 or fp16, got 'bf15'; did you mean 'bf16'?"),
    ("--overflow", "wrap", "expected error, stop or slide, got 'wrap'"),
    ("--overflow", "slid", "expected error, stop or slide, got 'slid'; did you mean 'slide'?"),
)

BAD_TOKENS = ("-1", "1,a", "1,,2", ",", "1,", "1 2,,3", "1.5", "0x1", "99999999999999999999", "2147483648")


class UsageTest(KilnTest):
    def setUp(self):
        super().setUp()
        self.model = write_model(self.path("model"))

    def test_flags_of_run(self):
        for flag, value, message in BAD_FLAGS:
            with self.subTest(flag=flag, value=value):
                self.assert_fails(f"error: {flag}: {message}\n", "run", self.model, "--tokens", 1, f"{flag}={value}", code=2)

    def test_flags_of_eval(self):
        for flag in ("--window", "--stride"):
            self.assert_fails(f"error: {flag}: expected an integer from 0, got '-1'", "eval", self.model, "--text", "-",
                              f"{flag}=-1", code=2)

    def test_empty_values(self):
        for text in ("", ",", "sm_80,", "sm_80,,sm_86"):
            self.assert_fails("error: --target: expected sm_100, sm_120, sm_80, sm_86, sm_89 or sm_90a, got ''", "compile", self.model, f"--target={text}", code=2)
        self.assert_fails("error: -o: expected a value, got ''", "compile", self.model, "-o", "", code=2)
        self.assert_fails("error: --batch: expected an integer from 1, got ''", "bench", self.model, "--batch=1,,2", code=2)

    def test_virtual_architectures(self):
        compile_ = ["compile", self.model]
        self.assert_fails("error: --target: expected compute_100, compute_120, compute_80, compute_86, compute_89 or compute_90, got "
                          "'compute_81'; did you mean 'compute_80'?\n", *compile_, "--target", "sm_80,compute_81", code=2)
        self.assert_fails("error: --target: expected compute_90, got 'compute_90a': code that uses what one GPU alone has is no PTX "
                          "for later ones\n", *compile_, "--target", "sm_90a,compute_90a", code=2)
        self.assert_fails("error: --target: expected a GPU first, for which tiles are chosen, like sm_80,compute_80, got compute_80\n",
                          *compile_, "--target", "compute_80", code=2)
        self.assert_fails("error: --target: expected one target where no cubins are made, got sm_80,compute_80\n",
                          *compile_, "--target", "sm_80,compute_80", "--stage", "plan", code=2)
        self.assert_fails("expected a matmul that gemm_wgmma runs on sm_90a and on the other GPUs that the plan is for, found none\n",
                          *compile_, "--target", "sm_90a,compute_90", "--dtype", "bf16", "--strategy", "matmul=wgmma")

    def test_what_does_not_go_together(self):
        run = ["run", self.model, "--tokens", 1]
        for option in (["--top-k", 5], ["--top-p", 0.5], ["--min-p", 0.1], ["--temperature", 1], ["--seed", 1]):
            self.assert_fails("error: --greedy excludes --", *run, "--greedy", *option, code=2)
        self.assert_fails("error: --logits requires --json", *run, "--logits", code=2)
        self.assert_fails("error: --json excludes --no-echo", *run, "--json", "--no-echo", code=2)
        for option in ("--dtype=f16", "--strategy=fusion=off", "--matmul=auto", "--decode=graph", "--tuning=none",
                       "--batch-invariant=8", "--draft-tokens=4", "--ranks=2"):
            self.assert_fails(f"error: {option.split('=')[0]} excludes --passes", "compile", self.model, option,
                              "--passes=canonicalize", code=2)

    def test_options_that_would_do_nothing(self):
        """Each of these options is refused, and the message says what to do instead."""
        run, compile_ = ["run", self.model, "--tokens", 1], ["compile", self.model]
        text = self.write("m.kiln", "module @m {}")
        for message, *command in (
                ("--schedule: expected --device emulate", *run, "--schedule", "in-order", "--device", "cpu"),
                ("--schedule: expected --device emulate", *run, "--schedule", "reversed"),
                ("--check: memory: expected --device emulate", *run, "--check", "memory", "--device", "cuda:0"),
                ("--check reference: the reference executor (--device cpu, or auto without a GPU) is what steps would be compared "
                 "with; use --device emulate or cuda:N", *run, "--check", "reference", "--device", "cpu"),
                ("--kernels-from: the reference executor (--device cpu, or auto without a GPU) runs no kernels; use --device "
                 "emulate or cuda:N", *run, "--kernels-from", self.folder, "--device", "cpu"),
                ("--special: expected --prompt, --prompt-file or --input", *run, "--special"),
                ("standard input can be one prompt", "run", self.model, "--tokens", "-", "--prompt-file", "-"),
                ("--file: standard input can be one text", "tokenize", self.model, "--file", "-", "--file", "-"),
                ("--kernel: expected --what cuda, ptx or resources, got ir", "dump", self.model, "--what", "ir", "--kernel", "k"),
                ("--dtype: expected --stage fused or later, got graph", *compile_, "--stage", "graph", "--dtype", "bf16"),
                ("--passes: expected --stage fused or later, got graph", *compile_, "--stage", "graph", "--passes", "canonicalize"),
                ("--tuning: expected --stage plan or later, got fused", *compile_, "--stage", "fused", "--tuning", "none"),
                ("--batch-invariant: expected --stage plan or later, got fused", *compile_, "--stage", "fused", "--batch-invariant", 2),
                ("--batch-invariant: expected an integer from 1 to 64, got '0'", *compile_, "--batch-invariant", 0),
                ("--batch-invariant: expected an integer from 1 to 64, got '65'", *run, "--batch-invariant", 65),
                ("--target: expected --stage fused or later, got graph", *compile_, "--stage", "graph", "--target", "sm_80"),
                ("--dump-dir: expected --stage cuda or later, got plan", *compile_, "--stage", "plan", "--dump-dir", "x"),
                ("--no-cache: expected --stage cubin, got cuda", *compile_, "--stage", "cuda", "--no-cache"),
                ("--target: expected one target where no cubins are made", *compile_, "--stage", "plan", "--target", "sm_80,sm_90a"),
                ("--target: expected each target once, got sm_80,sm_80", *compile_, "--target", "sm_80,sm_80"),
                ("--target: --passes chooses the target", *compile_, "--stage", "plan", "--passes", "canonicalize", "--target", "sm_80"),
                ("--ranks: m.kiln is IR, which is split or not; compile the model again with --ranks 2", "compile", text, "--stage",
                 "fused", "--ranks", 2),
                ("--max-batch: IR says itself what its dims are", "compile", text, "--max-batch", 2),
                ("--dtype: m.kiln is IR, which has its dtypes", "compile", text, "--dtype", "bf16"),
                ("--decode: m.kiln is IR, whose @decode is one kernel or not", "compile", text, "--decode", "graph"),
                ("--strategy: m.kiln is IR, which is as fused as it is to become", "compile", text, "--strategy", "fusion=off"),
                ("MODEL: expected a .toml, a directory with config.json or a model in one file, got IR", "tune", text, "--device", "emulate"),
                ("MODEL: expected a .toml, a directory with config.json or a model in one file, got IR", "bench", "ladder", text, "--device", "emulate"),
                ("--of: expected --what kernels, got decode", "bench", self.model, "--of", "prefill"),
                ("--samples: --device emulate counts and runs nothing", "bench", self.model, "--device", "emulate", "--samples", 3),
                ("--length: expected a position from 0 to 23 in the context of 24, got 24", "bench", self.model, "--device", "emulate",
                 "--length", 24),
                ("--length: expected a position from 1 to 22 in the context of 24, got 0", "bench", self.model, "--device", "emulate",
                 "--what", "generate", "--length", "1,0"),
                ("--length: expected a number of tokens from 1 to 24 in the context of 24, got 500", "bench", self.model, "--device",
                 "emulate", "--what", "prefill", "--length", 500),
                ("--warm-up: --device emulate counts and runs nothing", "bench", self.model, "--device", "emulate", "--warm-up", 1),
                ("--warm-up: expected no --what generate", "bench", self.model, "--what", "generate", "--warm-up", 1),
                ("--warm-up: expected no --what speculation", "bench", self.model, "--what", "speculation", "--warm-up", 1),
                ("--weights: --device emulate counts and runs nothing", "bench", self.model, "--device", "emulate", "--weights", "x"),
                ("--samples: --device emulate checks and does not time", "bench", "ladder", self.model, "--device", "emulate",
                 "--samples", 3),
                ("--samples: --device emulate checks and does not time", "bench", "ladder", self.model, "--device", "emulate,emulate",
                 "--samples", 3),
                ("--samples: --device emulate counts passes and does not time", "bench", self.model, "--what", "speculation", "--device",
                 "emulate", "--samples", 5),
                ("--logit-bias: token 3 is given twice", *run, "--logit-bias", "3:1", "--logit-bias", "4:1", "--logit-bias", "3:2"),
                ("--batch: given to kiln bench, which does nothing for its command ladder", "bench", "--batch", 2, "ladder", self.model),
                ("MODEL: given to kiln bench, which does nothing for its command ladder", "bench", self.model, "ladder", self.model)):
            with self.subTest(command=command):
                self.assert_fails("error: " + message, *command, code=2)

    @unittest.skipIf(os.path.exists("/dev/nvidiactl"), "there is a GPU")
    def test_auto_without_a_gpu(self):
        """Without a GPU, auto is the CPU for every command; commands that need kernels list the devices that they
        accept."""
        for command in (["bench", self.model], ["bench", "ladder", self.model], ["tune", self.model]):
            self.assert_fails("error: --device auto: there is no GPU, so that auto is cpu, the reference executor, which runs no "
                              f"kernels; kiln {' '.join(command[:-1])} takes --device emulate or cuda:N\n", *command, code=2)
        for command in (["eval", self.model, "--text", "-"], ["run", self.model, "--tokens", 1]):
            self.assert_fails("error: --dtype bf16: the reference executor (--device cpu, or auto without a GPU) computes in fp32; "
                              "use --device emulate or cuda:N\n", *command, "--dtype", "bf16", code=2)
        self.assert_fails("error: no NVIDIA driver on this machine; --device cpu and emulate need none\n", "run", self.model,
                          "--tokens", 1, "--max-new-tokens", 1, "--device", "cuda:0")
        self.assert_fails("error: no NVIDIA driver on this machine; --device emulate needs none\n", "bench", self.model,
                          "--length", 8, "--device", "cuda:0")

    def test_unknown_words(self):
        commands = "compile, dump, run, tokenize, eval, bench, report, tune, import, export, check, compare"
        self.assert_fails(f"error: unknown command 'rum', expected one of {commands}; did you mean 'run'?\n", "rum", self.model, code=2)
        self.assert_fails(f"error: unknown command 'frobnicate', expected one of {commands}\n", "frobnicate", code=2)
        self.assert_fails(f"error: no command: expected one of {commands}\n", code=2)
        run = ["run", self.model, "--tokens", 1]
        self.assert_fails("error: unknown option '--frobnicate'\n", *run, "--frobnicate", code=2)
        for arguments in (["--devise", "cpu"], ["--devise=cpu"]):
            self.assert_fails("error: unknown option '--devise'; did you mean '--device'?\n", *run, *arguments, code=2)
        self.assert_fails("error: unknown option '-x'\n", *run, "-x", code=2)
        self.assert_fails("error: unexpected argument 'b'\n", *run, "b", "c", code=2)
        self.assert_fails("error: MODEL is required\n", "run", code=2)
        self.assert_fails("error: MODEL is required\n", "bench", code=2)
        for command in (["compile", self.model], ["tune", self.model], ["bench", "ladder", self.model]):
            self.assert_fails("error: --target: expected sm_100, sm_120, sm_80, sm_86, sm_89 or sm_90a, got 'sm_81'; did you mean "
                              "'sm_80'?\n", *command, "--target", "sm_81", code=2)
        self.assert_fails("got 'layernrom'; did you mean 'layernorm'?", "bench", "ladder", self.model, "--parts", "layernrom", code=2)
        self.assert_fails("error: unknown pass 'fuse-nrom'; kiln-opt --list-passes shows them all; did you mean 'fuse-norm'?", "compile",
                          self.model, "--passes", "fuse-nrom", code=2)
        for strategy, message in (("fuson=off", "unknown topic 'fuson', expected one of matmul, "), ("fusion=epilog", "did you mean 'epilogue'?")):
            self.assert_fails(message, "compile", self.model, "--strategy", strategy, code=2)

    def test_plans_are_compiled(self):
        plan = self.path("plan")
        self.kiln("compile", self.model, "--stage", "cuda", "--quiet", "-o", plan)
        for command in ("compile", "tune", "bench ladder"):
            self.assert_fails(f"error: MODEL: plan is a compiled plan; kiln {command} takes what one is compiled from, a .toml, a "
                              "directory with config.json or a model in one file\n", *command.split(), plan, code=2)
        self.assert_fails("error: MODEL: plan is a compiled plan, which has no vocabulary; give the directory that has it\n", "tokenize",
                          plan, "--text", "a", code=2)
        for command in (["run", plan, "--tokens", 1], ["eval", plan, "--text", "-"], ["bench", plan, "--device", "emulate"]):
            self.assert_fails("error: --dtype: plan is a compiled plan of dtype f32; compile the model again with --dtype bf16\n",
                              *command, "--dtype", "bf16", code=2)
        self.assert_fails("error: --batch: expected at most the 64 sequences that plan is for, got 65\n", "bench", plan, "--device",
                          "emulate", "--length", 8, "--batch", "1,65", code=2)

    def test_a_kernel_of_another_plan(self):
        """This is an error of the input, not of the command line."""
        plan = self.path("plan")
        self.kiln("compile", self.model, "--stage", "cuda", "--quiet", "-o", plan)
        self.assert_fails("did you mean 'embed__f32__n32'?", "dump", plan, "--kernel", "embed__f32__n33", code=1)

    def test_dump_of_one_kernel(self):
        plan, dump = self.path("plan"), self.path("dump")
        self.kiln("compile", self.model, "--stage", "cuda", "--quiet", "-o", plan)
        self.kiln("dump", plan, "--kernel", "embed__f32__n32", "-o", dump)
        self.assertEqual(sorted(name for _, _, names in os.walk(dump) for name in names),
                         ["embed__f32__n32.cu", "embed__f32__n32.ptx", "resources.md"])

    def test_version(self):
        version = self.kiln("--version").out.decode()
        self.assertRegex(version, r"\Akiln \d+\.\d+\.\d+\nrevision (unknown|[0-9a-f]{12}(-dirty)?)\nCUDA 1[3-9]\.[\d.]+\n"
                                  r"targets sm_100, sm_120, sm_80, sm_86, sm_89, sm_90a\n\Z")

    def test_tokens_that_are_none(self):
        for text in BAD_TOKENS:
            with self.subTest(text=text):
                message = "error: --tokens: expected token ids like 1,2,3, got '"
                self.assert_fails(message, "run", self.model, f"--tokens={text}", code=2)
                self.assert_fails(message, "run", self.model, "--tokens", "-", stdin=text.encode(), code=1)

    def test_prompts_that_the_model_cannot_take(self):
        vocabulary, context = CONFIG["vocab_size"], CONFIG["n_positions"]
        run = ["run", self.model, "--max-new-tokens", 1]
        nothing = ("error: prompt 1: expected at least one token, got none, and the model has no end-of-text token to begin with; "
                   "give --prompt, --prompt-file or --tokens\n")
        self.assert_fails(nothing, *run, "--tokens=")
        self.assert_fails(nothing, *run)
        self.assert_fails(f"error: prompt 2: expected token ids in 0..{vocabulary - 1}, got {vocabulary}", *run, "--tokens", 1,
                          "--tokens", f"0,{vocabulary}")
        self.assert_fails(f"error: prompt 1: expected at most the context of {context} tokens, got {context + 1}", *run,
                          "--tokens", ",".join(["1"] * (context + 1)))

    def test_what_is_checked_before_kernels_are_compiled(self):
        run = ["run", SHAKESPEARE, "--device", "emulate"]
        for code, message, *options in (
                (1, "prompt 2: expected token ids in 0..1008, got 1009", "--tokens", 1, "--tokens", 1009),
                (1, "prompt 1: expected prompt and new tokens to fit in the context of 1024, got 1 and 1024", "--tokens", 1,
                 "--max-new-tokens", 1024),
                (2, "--logit-bias: expected token ids in 0..1008, got 1009", "--tokens", 1, "--logit-bias", "1009:1"),
                (2, "--logit-bias: expected token ids in 0..1008, got 1009", "--input", os.devnull, "--logit-bias", "1009:1"),
                (2, "--stop: expected some text, got none", "--tokens", 1, "--stop="),
                (1, "prompt 1: expected token ids in 0..1008, got 1009", "--tokens", 1009, "--interactive"),
                (2, "--logit-bias: expected token ids in 0..1008, got 1009", "--interactive", "--logit-bias", "1009:1")):
            with self.subTest(options=options):
                self.assert_fails("error: " + message, *run, *options, code=code)
                self.assertEqual(run_kiln(*run, *options).err.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
