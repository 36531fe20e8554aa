"""Ranks of a model that are processes: they write what ranks write that are threads of one process, whoever starts them;
and when one of them ends or differs, all end within seconds, with a message that says which and why, and leave nothing."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
import unittest

from kilntest import CONFIG, KILN, SOURCE, TIMEOUT, KilnTest, break_sums_of_rank_1, ids, run_kiln, write_model

DRAFT = os.path.join(SOURCE, "graphs", "shakespeare-draft")
# How launchers name the rank, the number of ranks, and the job.
LAUNCHERS = {
    "by hand": ("KILN_RANK", "KILN_RANKS", "KILN_JOB"),
    "OpenMPI": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE"),
    "PMI": ("PMI_RANK", "PMI_SIZE", None),
    "torchrun": ("RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"),
}
# Seconds within which all processes end when one has failed: 5, on a machine that does nothing else. A rank counts as silent
# after 20.
LIMIT = 12


def rank_environment(rank, ranks, launcher="by hand", job="test"):
    rank_name, ranks_name, job_name = LAUNCHERS[launcher]
    own = {rank_name: str(rank), ranks_name: str(ranks)}
    if job_name:
        own[job_name] = f"{job}-{os.getpid()}"
    return {**os.environ, **own}


def spawn(*command, **options):
    return subprocess.Popen([KILN, *map(str, command)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **options)


def start_ranks(ranks, *command, launcher="by hand", folders=None, **options):
    """A process for each rank, as launchers start them; each in a folder of its own if there are some."""
    return [spawn(*command, env=rank_environment(rank, ranks, launcher), cwd=folders and folders[rank], **options)
            for rank in range(ranks)]


def finish(processes, limit=TIMEOUT):
    """The exit codes, outputs and messages, when all have ended."""
    deadline = time.monotonic() + limit
    results = []
    try:
        for process in processes:
            out, err = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
            results.append((process.returncode, out, err.decode("utf-8", "replace")))
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return results


def environment_of(number):
    """The environment of a process."""
    with open(f"/proc/{number}/environ", encoding="utf-8", errors="surrogateescape") as file:
        return dict(entry.split("=", 1) for entry in file.read().split("\0") if "=" in entry)


def socket_of(environment):
    """The abstract socket at which the ranks of a job meet: the first launcher's whose variables are there."""
    launchers = {"KILN_RANK": ("KILN_JOB",), "OMPI_COMM_WORLD_RANK": ("PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri")}
    rank = next(name for name in launchers if name in environment)
    job = [rank, *(environment[name] for name in launchers[rank] if name in environment)]
    digest = hashlib.sha256("".join(part + "\n" for part in job).encode()).hexdigest()
    return f"@kiln-{os.geteuid()}-{digest[:32]}"


def children(process, variable="KILN_RANK"):
    """The processes of the ranks that a process has started, by rank."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
            variables = environment_of(name)
        except OSError:
            continue  # it has ended
        if parent == process.pid and variable in variables:
            found[int(variables[variable])] = int(name)
    return found


class RankProcesses(KilnTest):
    def model(self, name="model", seed=1):
        return write_model(self.path(name), CONFIG, seed=seed)

    def compile(self, name, *options):
        self.kiln("compile", self.model(), "--ranks", 2, "--stage", "cuda", "--quiet", "-o", self.path(name), *options)
        return self.path(name)


class Results(RankProcesses):
    def assert_same(self, *command, ranks=2, **options):
        """By threads, by processes, and by processes of each launcher."""
        wanted = self.kiln(*command, "--ranks", ranks, **options).out
        self.assertNotEqual(wanted, b"")
        self.assertEqual(self.kiln(*command, "--ranks", ranks, "--processes", **options).out, wanted)
        return wanted

    def test_text(self):
        command = ("run", DRAFT, "--device", "emulate", "--prompt", "ROMEO:", "--greedy", "--max-new-tokens", 5, "--quiet")
        wanted = self.assert_same(*command)
        for launcher in LAUNCHERS:
            with self.subTest(launcher=launcher):
                first, second = finish(start_ranks(2, *command, "--ranks", 2, launcher=launcher))
                self.assertEqual(first, (0, wanted, ""))
                self.assertEqual(second, (0, b"", ""))

    def test_a_plan_of_three_ranks(self):
        model = write_model(self.path("odd"), {**CONFIG, "n_embd": 24, "n_head": 3, "n_inner": 20})
        plan = self.path("plan")
        self.kiln("compile", model, "--ranks", 3, "--stage", "cuda", "--quiet", "-o", plan)
        options = ("--device", "emulate", "--tokens", "1,2", "--max-new-tokens", 4, "--seed", 3, "--quiet")
        wanted = self.kiln("run", plan, *options).out
        self.assertEqual(self.kiln("run", plan, *options, "--processes").out, wanted)
        self.assertEqual(self.kiln("run", plan, *options[2:], "--processes", "--device", "emulate,emulate,emulate").out, wanted)

    def test_logits_and_edits(self):
        """Tokens are chosen on the host."""
        command = ("run", self.model(), "--device", "emulate", "--tokens", "1,2", "--tokens", "3", "--json", "--quiet", "--seed", 3,
                   "--max-new-tokens", 5)
        for options in (("--logits",), ("--repetition-penalty", 1.5, "--logit-bias", "3:2"), ("--logprobs", 2, "--echo")):
            with self.subTest(options=options):
                found = [self.kiln(*command, *options, *more).objects() for more in (("--ranks", 2), ("--ranks", 2, "--processes"))]
                for result in sum(found, []):
                    del result["timing"]
                self.assertEqual(*found)

    def test_many_prompts(self):
        """More than rows; some of them are refused, one after the other."""
        lines = "".join(json.dumps({"tokens": [1 + i % 7], "max_new_tokens": 2 + i % 5, "seed": i}) + "\n" for i in range(9))
        self.assert_same("run", self.model(), "--device", "emulate", "--input", "-", "--batch", 2, "--quiet", stdin=lines.encode())

    def test_halves(self):
        """Of calls, side by side: the bytes are those of whole calls."""
        plan = self.compile("plan")
        file = self.path("plan", "plan.toml")
        with open(file) as opened:
            text = opened.read()
        lines = "".join(json.dumps({"tokens": [1 + i % 7] * (3 + i % 5), "max_new_tokens": 2, "seed": i}) + "\n" for i in range(12))
        command = ("run", plan, "--weights", self.path("model"), "--device", "emulate", "--input", "-", "--batch", 5, "--quiet")
        results = []
        for rows in ("halved_rows = 8\n", ""):
            with open(file, "w") as opened:
                opened.write(text.replace("halved_rows = 1024\n", rows, 1))
            results.append(self.assert_same(*command, stdin=lines.encode()))
        self.assertEqual(*results)

    def test_a_context_that_slides(self):
        self.assert_same("run", self.model(), "--device", "emulate", "--tokens", ids(range(1, 20)), "--max-new-tokens", 30,
                         "--overflow", "slide", "--quiet")

    def test_nothing_to_do(self):
        """The other ranks end although the first never opens its device."""
        output = self.path("out.jsonl")
        command = ("run", self.model(), "--device", "emulate", "--ranks", 2, "--input", self.write("in.jsonl", '{"tokens":[1],"max_new_tokens":2}\n'),
                   "--output", output, "--quiet")
        self.kiln(*command)
        self.kiln(*command, "--processes", "--resume")

    def test_interactive(self):
        command = ("run", DRAFT, "--device", "emulate", "--interactive", "--greedy", "--max-new-tokens", 3)
        self.assert_same(*command, stdin=b"To be\nor not\n/reset\nA\n")

    def test_eval(self):
        text = self.write("text", "To be, or not to be, that is the question. " * 3)
        command = ("eval", DRAFT, "--ranks", 2, "--window", 32, "--device", "emulate", "--quiet")
        wanted = self.kiln(*command, "--text", text).out
        self.assertEqual(self.kiln(*command, "--text", text, "--processes").out, wanted)
        with open(text, "rb") as file:
            self.assertEqual(self.kiln(*command, "--text", "-", "--processes", stdin=file.read()).out, wanted)

    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
    def test_mpirun(self):
        command = ("run", DRAFT, "--ranks", "2", "--device", "emulate", "--prompt-file", "-", "--greedy", "--max-new-tokens", "4", "--quiet")
        wanted = self.kiln(*command, stdin=b"ROMEO:").out
        result = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", KILN, *command], input=b"ROMEO:",
                                capture_output=True, timeout=TIMEOUT)
        self.assertEqual((result.returncode, result.stdout), (0, wanted), result.stderr)


class Differences(RankProcesses):
    """Ranks that do not belong together."""

    command = ("run", "plan", "--weights", "model", "--tokens", "1,2", "--max-new-tokens", 2, "--device", "emulate", "--quiet")

    def folders(self):
        """One for each rank, with the same plan and the same weights."""
        plan, model = self.compile("plan"), self.path("model")
        for name in ("first", "second"):
            os.mkdir(self.path(name))
            shutil.copytree(plan, self.path(name, "plan"))
            shutil.copytree(model, self.path(name, "model"))
        return [self.path("first"), self.path("second")]

    def assert_all_fail(self, processes, *messages, code=1, limit=TIMEOUT):
        for found, out, err in finish(processes, limit):
            self.assertEqual((found, out), (code, b""), err)
            for message in messages:
                self.assertIn(message, err)
            self.assertEqual(err.count("error:"), 1, err)

    def test_equal_copies(self):
        results = finish(start_ranks(2, *self.command, folders=self.folders()))
        self.assertEqual([code for code, _, _ in results], [0, 0], results)

    def test_plans(self):
        """A kernel of the other has another comment."""
        folders = self.folders()
        kernels = os.path.join(folders[1], "plan", "kernels")
        with open(os.path.join(kernels, sorted(os.listdir(kernels))[0]), "a") as file:
            file.write("// another\n")
        self.assert_all_fail(start_ranks(2, *self.command, folders=folders), "rank 1: expected the plan of rank 0")

    def test_weights(self):
        folders = self.folders()
        write_model(os.path.join(folders[1], "model"), CONFIG, seed=2)
        self.assert_all_fail(start_ranks(2, *self.command, folders=folders), "rank 1: expected the weights of rank 0")

    def test_arguments(self):
        folders = self.folders()
        processes = [spawn(*self.command, "--seed", rank, env=rank_environment(rank, 2), cwd=folders[rank]) for rank in range(2)]
        self.assert_all_fail(processes, "rank 1: expected the arguments of rank 0", "--seed 0, got", "--seed 1")

    def test_numbers_of_ranks(self):
        """Of the processes, and of the model."""
        folders = self.folders()
        processes = [spawn(*self.command, env=rank_environment(rank, 2 + rank), cwd=folders[rank]) for rank in range(2)]
        self.assert_all_fail(processes, "rank 1: expected to be one of 2 ranks, as rank 0 is, got 3")
        self.assert_all_fail(start_ranks(3, *self.command, folders=folders + folders[:1]), "split among as many GPUs as processes were started, 3",
                             code=2)
        self.assert_all_fail(start_ranks(2, "run", self.model("one"), *self.command[4:]), "as processes were started, 2, got one of 1 rank", code=2)

    def test_variables_that_nobody_set_for_kiln(self):
        """Containers have those of torchrun without its sign, too."""
        variables = {**rank_environment(0, 2, "torchrun"), "MASTER_PORT": "29500"}
        del variables["TORCHELASTIC_RUN_ID"]
        result = run_kiln("run", self.model("one"), *self.command[4:], "--quiet", env=variables)
        self.assertEqual((result.code, result.err), (0, ""))

    def test_the_same_rank_twice(self):
        folders = self.folders()
        processes = [spawn(*self.command, env=rank_environment(min(rank, 1), 3), cwd=folders[0]) for rank in range(3)]
        self.assert_all_fail(processes, "rank 1: expected one process of it, got another one")

    def test_a_missing_rank(self):
        for rank in range(2):
            with self.subTest(there=rank):
                start = time.monotonic()
                process = spawn(*self.command, env=rank_environment(rank, 2))
                self.assert_all_fail([process], f"rank {1 - rank} of 2 has not come within 4.0 seconds", limit=LIMIT + 1)
                self.assertLess(time.monotonic() - start, LIMIT)

    def test_a_rank_that_cannot_read_its_model(self):
        folders = self.folders()
        os.remove(os.path.join(folders[1], "model", "model.safetensors"))
        self.assert_all_fail(start_ranks(2, *self.command, folders=folders), "rank 1: expected model.safetensors", limit=LIMIT)

    def test_a_rank_whose_kernel_fails(self):
        """All say what it was."""
        plan = self.compile("plan")
        break_sums_of_rank_1(plan, self.path("edited"))
        command = ("run", plan, *self.command[2:4], *self.command[4:], "--kernels-from", self.path("edited"))
        self.assert_all_fail(start_ranks(2, *command, folders=[self.folder] * 2), "rank 1: ", "outside")
        self.assert_fails("rank 1: ", *command, "--processes", cwd=self.folder)

    def test_prompts_are_the_first_ranks(self):
        """An error in them ends all, and is told once."""
        command = ("run", self.compile("plan"), "--weights", self.path("model"), "--tokens", "1,99999", "--device", "emulate", "--processes")
        result = run_kiln(*command)
        self.assertEqual((result.code, result.err.count("error")), (1, 1), result.err)
        self.assertIn("rank 0: ", result.err)

    def test_what_cannot_be(self):
        plan, model = self.compile("plan"), self.path("model")
        options = ("--weights", model, "--tokens", "1")
        self.assert_fails("expected a model that is split among several GPUs", "run", model, "--tokens", "1", "--processes", code=2)
        self.assert_fails("the reference executor, which runs all ranks in one process", "run", plan, *options, "--processes", "--device", "cpu",
                          code=2)
        self.assert_fails("expected 2 devices, one for each rank of the model, got 3", "run", plan, *options, "--processes",
                          "--device", "emulate,emulate,emulate", code=2)
        self.assert_fails("--draft: expected a model on one GPU", "run", plan, *options, "--processes", "--device", "emulate",
                          "--draft", "ngram", code=2)
        self.assert_fails("OMPI_COMM_WORLD_RANK of the environment: expected a rank below 2, got 2", "run", plan, *options,
                          env=rank_environment(2, 2, "OpenMPI"))
        self.assert_fails("several hosts are not supported", "run", plan, *options,
                          env={**rank_environment(0, 2, "OpenMPI"), "OMPI_COMM_WORLD_LOCAL_SIZE": "1"})
        self.assert_fails("this command has a thread for each rank", "compare", plan, plan, "--weights", model, "--device", "emulate",
                          env=rank_environment(0, 2), code=2)


class Kills(RankProcesses):
    """Of each rank in turn: the others end soon, and nothing is left."""

    command = ("run", DRAFT, "--ranks", 2, "--device", "emulate", "--greedy", "--overflow", "slide", "--max-new-tokens", 2000, "--quiet",
               "--no-echo", "--ignore-eos")
    short, long = ("--prompt", "A"), ("--tokens", ids([1] * 250)) * 8

    @classmethod
    def setUpClass(cls):
        """Kernels are compiled before."""
        for prompt in (cls.short, cls.long):
            run_kiln(*cls.command, *prompt, "--max-new-tokens", 2)

    def setUp(self):
        super().setUp()
        self.sockets = {socket_of(rank_environment(0, 2))}
        self.before = self.leftovers()

    def leftovers(self):
        """What processes that are killed might leave, but no sockets of others' processes. KILN_CACHE may be below /tmp,
        and has no temporary files."""
        with open("/proc/net/unix") as file:
            sockets = self.sockets & {line.split()[-1] for line in file}
        return set(os.listdir("/dev/shm")) | {name for name in os.listdir("/tmp") if "kiln" in name and not name.startswith("kiln-test-")} | sockets

    def assert_clean(self):
        self.assertLessEqual(self.leftovers(), self.before)

    def expect_no_socket_of(self, number):
        """In the end, of the job of this rank's process."""
        self.sockets.add(socket_of(environment_of(number)))

    def await_phase(self, phase, out):
        if phase == "start":
            time.sleep(0.05)
        elif phase == "prompts":
            time.sleep(1)  # of several that the prompts take
        else:
            self.assertNotEqual(out.read(3), b"", "it has ended before it was killed")

    def prompt(self, phase):
        return self.long if phase == "prompts" else self.short

    def test_processes(self):
        for phase in ("start", "prompts", "decode"):
            for rank in range(2):
                with self.subTest(phase=phase, rank=rank):
                    processes = start_ranks(2, *self.command, *self.prompt(phase))
                    for process in processes:
                        self.addCleanup(process.kill)
                    self.await_phase(phase, processes[0].stdout)
                    processes[rank].kill()
                    killed = time.monotonic()
                    code, _, err = finish(processes, LIMIT)[1 - rank]
                    self.assertLess(time.monotonic() - killed, LIMIT)
                    self.assertEqual(code, 1, err)
                    self.assertRegex(err, f"^error: rank {rank} .*has (ended|not come)")
                    self.assertEqual(err.count("error"), 1, err)
                    self.assert_clean()

    def test_own_processes(self):
        for phase in ("start", "prompts", "decode"):
            for rank in range(2):
                with self.subTest(phase=phase, rank=rank):
                    launcher = spawn(*self.command, *self.prompt(phase), "--processes")
                    self.addCleanup(launcher.kill)
                    self.await_phase(phase, launcher.stdout)
                    ranks = children(launcher)
                    self.expect_no_socket_of(ranks[rank])
                    os.kill(ranks[rank], signal.SIGKILL)
                    killed = time.monotonic()
                    (code, _, err), = finish([launcher], LIMIT)
                    self.assertLess(time.monotonic() - killed, LIMIT)
                    self.assertEqual((code, err), (1, f"error: rank {rank} was killed by signal 9 (Killed)\n"))
                    self.assertFalse(any(os.path.exists(f"/proc/{number}") for number in ranks.values()))
                    self.assert_clean()

    def test_a_rank_that_is_stopped(self):
        """The one whose process is asked to tell says which rank is silent, or has not come."""
        launchers = {}
        for phase in ("start", "decode"):
            for rank in range(2):
                launcher = launchers[phase, rank] = spawn(*self.command, *self.prompt(phase), "--processes")
                self.addCleanup(launcher.kill)
                self.await_phase(phase, launcher.stdout)
                ranks = children(launcher)
                self.expect_no_socket_of(ranks[rank])
                os.kill(ranks[rank], signal.SIGSTOP)
        results = dict(zip(launchers, finish(list(launchers.values()), 40)))
        for (phase, rank), (code, _, err) in results.items():
            with self.subTest(phase=phase, rank=rank):
                self.assertEqual(code, 1, err)
                self.assertRegex(err, f"^error: rank {rank} .*(has been silent for 20 seconds|has not (come|answered))")
                self.assertEqual(err.count("error"), 1, err)
        self.assert_clean()

    def test_the_process_that_watches(self):
        launcher = spawn(*self.command, *self.short, "--processes")
        self.await_phase("decode", launcher.stdout)
        ranks = children(launcher)
        self.expect_no_socket_of(ranks[0])
        launcher.kill()
        finish([launcher])
        deadline = time.monotonic() + LIMIT
        while any(os.path.exists(f"/proc/{number}") for number in ranks.values()):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        self.assert_clean()

    def test_a_terminals_interrupt(self):
        """Ctrl-C goes to all processes; no rank reports that another has ended."""
        launcher = spawn(*self.command, *self.short, "--processes", start_new_session=True)
        self.await_phase("decode", launcher.stdout)
        os.killpg(launcher.pid, signal.SIGINT)
        (code, _, err), = finish([launcher], LIMIT)
        self.assertEqual((code, err), (-signal.SIGINT, ""))

    def test_a_first_rank_that_waits_for_its_user(self):
        """It reads nothing then, but ends."""
        processes = [subprocess.Popen([KILN, "run", DRAFT, "--ranks", "2", "--device", "emulate", "--interactive"], env=rank_environment(rank, 2),
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(2)]
        processes[0].stdin.write(b"A\n")
        processes[0].stdin.flush()
        self.assertNotEqual(processes[0].stdout.read(1), b"")
        processes[1].kill()
        code = processes[0].wait(LIMIT)
        err = processes[0].stderr.read().decode()
        self.assertEqual(code, 1, err)
        self.assertRegex(err, "error: rank 1 .*has ended")
        for process in processes:
            process.communicate()

    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
    def test_mpirun(self):
        launcher = subprocess.Popen(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", KILN, *map(str, self.command), *self.short],
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.await_phase("decode", launcher.stdout)
        rank = children(launcher, "OMPI_COMM_WORLD_RANK")[1]
        self.expect_no_socket_of(rank)
        os.kill(rank, signal.SIGKILL)
        (code, _, _), = finish([launcher], LIMIT)
        self.assertNotEqual(code, 0)
        self.assert_clean()


if __name__ == "__main__":
    unittest.main()
