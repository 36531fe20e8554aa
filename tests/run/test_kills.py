"""A compile that is killed at any moment leaves the old plan or the new one, or no plan if it was the first. The next
compile succeeds and removes the leftovers. A kiln tune that was killed continues where it stopped."""

import os
import random
import re
import signal
import subprocess
import time
import unittest

import syscalls
from kilntest import KILN, ONE_KERNEL, TIMEOUT, TINY_MODEL, KilnTest, run_kiln, snapshot


def spawn(*command, **options):
    return subprocess.Popen([KILN, *map(str, command)], stdout=subprocess.DEVNULL, **options)


class KilledCompile(KilnTest):
    def setUp(self):
        super().setUp()
        self.random = random.Random(1)
        self.plan = self.path("out", "m.plan")
        self.environment = {**os.environ, "KILN_CACHE": self.path("cache")}
        self.models = [self.write(name + ".kiln", ONE_KERNEL.format(name)) for name in ("tanh", "erf")]

    def compile(self, model, *options):
        return self.kiln("compile", model, "--quiet", "-o", self.plan, *options, env=self.environment)

    def assert_whole(self, plans):
        """Requires that an existing plan is readable and one of these; returns which."""
        if not os.path.exists(self.plan):
            self.assertIn(None, plans, "the plan that was there is lost")
            return None
        found = snapshot(self.plan)
        self.assertIn(found, plans, "a plan that is neither the old one nor the new one")
        self.kiln("dump", self.plan, "--what", "plan")
        return found

    def kill_often(self, turns, kill, *options):
        """Runs compiles of two models in turn, on top of what earlier ones left. `kill` starts and ends each."""
        plans = []
        for model in self.models:
            self.compile(model, *options)
            plans.append(snapshot(self.plan))
        self.assertNotEqual(plans[0], plans[1])
        subprocess.run(["rm", "-r", self.plan], check=True)
        last = None
        for turn in range(turns):
            kill("compile", self.models[turn % 2], "--quiet", "-o", self.plan, *options)
            last = self.assert_whole([last, plans[turn % 2]])
        self.compile(self.models[0], *options)
        self.assertEqual(snapshot(self.plan), plans[0])
        self.assertEqual(os.listdir(self.path("out")), ["m.plan"])
        if os.path.exists(self.path("cache")):
            self.assertEqual([name for name in os.listdir(self.path("cache")) if not name.endswith(".cubin")], [])

    def kill_at_random(self, *options):
        start = time.monotonic()
        self.compile(self.models[0], *options)
        whole = time.monotonic() - start

        def kill(*command):
            process = spawn(*command, stderr=subprocess.DEVNULL, env=self.environment)
            time.sleep(self.random.uniform(0, 1.2 * whole))
            process.kill()
            process.wait(TIMEOUT)

        return kill

    def test_plans_of_cuda(self):
        options = ["--stage", "cuda"]
        self.kill_often(40, self.kill_at_random(*options), *options)

    def test_plans_with_cubins(self):
        self.kill_often(12, self.kill_at_random("--no-cache"), "--no-cache")

    def test_the_cache(self):
        """Entries are removed before each turn, so that they are written again."""
        kill_one = self.kill_at_random("--no-cache")

        def kill(*command):
            for name in os.listdir(self.path("cache")):
                if name.endswith(".cubin"):
                    os.remove(self.path("cache", name))
            kill_one(*command)

        self.kill_often(12, kill)

    @unittest.skipUnless(syscalls.are_available(), "the system has no filters of calls")
    def test_each_step(self):
        """Kills at every step, since random moments rarely hit the shortest ones."""
        calls = ["mkdir", "flock", "rename", "renameat2", "unlink", "rmdir"]

        def kill(*command):
            call = calls[self.turn // 2]
            self.turn += 1
            process = spawn(*command, stderr=subprocess.DEVNULL, env=self.environment, preexec_fn=lambda: syscalls.kill_at(call))
            self.ends.add(process.wait(TIMEOUT))

        self.turn, self.ends = 0, set()
        self.kill_often(2 * len(calls), kill, "--stage", "cuda")
        self.assertLessEqual(self.ends, {0, -signal.SIGSYS})
        self.assertIn(-signal.SIGSYS, self.ends)


class KilledTune(KilnTest):
    def test_goes_on(self):
        generator = random.Random(1)
        model, database = self.write("tiny.toml", TINY_MODEL), self.path("measured.toml")
        command = ["tune", model, "--device", "emulate", "--what", "decode", "--batch", 1, "--length", 8, "--samples", 1,
                   "--trials", 4, "-o", database]
        for lines in (0, 1, 2, 3):
            with spawn(*command, stderr=subprocess.PIPE) as process:
                for _ in range(lines):
                    self.assertNotEqual(process.stderr.readline(), b"", "it has ended before it was killed")
                time.sleep(generator.uniform(0, 0.05))
                process.kill()
            self.assertFalse(os.path.exists(database))
        with open(database + ".partial") as journal:
            measured = journal.read().count("\n") - 1  # without the heading
        result = run_kiln(*command)
        self.assertEqual(result.code, 0, result.err)
        self.assertGreaterEqual(measured, 6)
        self.assertEqual([int(done) for done in re.findall(r"(?m)^\[(\d+)/7\]", result.err)], list(range(measured + 1, 8)))
        self.assertEqual(sorted(os.listdir(self.folder)), ["measured.toml", "tiny.toml"])
        self.kiln("compile", model, "--stage", "plan", "--tuning", database)


if __name__ == "__main__":
    unittest.main()
