#!/usr/bin/env python3
"""The conformance suite on two hosts with four GPUs each: nothing fails that the shim has, and everything that it has
not still does. Prints the suite's own tables."""
import re
import unittest

from lab_world import SANITIZED, Lab, cases, environment, program

# What the shim does not have yet, by parts of the tests' names: each of them fails, or its entry has to go.
KNOWN_MISSING = ()
# A whole run takes half a minute, on a loaded machine minutes.
SUITE_PATIENCE_S = 400
# Gigabytes of memory for minutes: by hand.
TOO_LARGE = ("/large/",)
# Tried with one process per GPU only.
ONE_LAYOUT = ("/point_to_point/", "/split/", "/memory/", "/registration/", "/fork/", "/one_process/", "/beyond_nccl/")


class Conformance(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(hosts=2, gpus=4)
        cls.addClassCleanup(cls.lab.down)

    def assert_passes(self, result):
        print(re.sub(r"(?m)^\[0\] ", "", result.stdout))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def suite(self, *arguments, options=(), env=None):
        return self.lab.run(program("conformance"), *arguments, options=options, timeout=SUITE_PATIENCE_S, env=env)

    def without_left_out(self, more=()):
        return [word for name in (*KNOWN_MISSING, *TOO_LARGE, *more) for word in ("--exclude", name)]

    def test_one_process_per_gpu(self):
        self.assert_passes(self.suite(*self.without_left_out()))

    def test_several_gpus_per_process(self):
        self.assert_passes(
            self.suite("-g", 2, *self.without_left_out(ONE_LAYOUT), options=("--ranks-per-host", 2)))

    def test_one_process_with_all_gpus_of_a_host(self):
        self.assert_passes(self.lab.exec("h0", program("conformance"), *self.without_left_out(ONE_LAYOUT),
                                         timeout=SUITE_PATIENCE_S))

    def test_more_ranks_than_gpus(self):
        for options in ((), ("-g", 2)):
            layout = ("--ranks-per-host", 2) if options else ()
            self.assert_passes(self.suite(*options, "--filter", "/multi_rank/", options=layout,
                                          env=environment(NCCL_MULTI_RANK_GPU_ENABLE="1")))

    def test_random_programs(self):
        self.assert_passes(self.suite("--random", "--seeds", 20))

    def test_what_is_known_to_be_missing_is_missing(self):
        if SANITIZED:
            self.skipTest("what fails, fails as well without sanitizers, and sooner")
        for name in KNOWN_MISSING:
            with self.subTest(name):
                chosen = self.suite("--list", "--filter", name).stdout
                self.assertIn("/", chosen, f"there is no test {name} any more: take it from KNOWN_MISSING")
                # One that crashes ends the run: those behind it are missing, too.
                passed = re.findall(r"passed  (\S+/\S+)", self.suite("-v", "--filter", name).stdout)
                self.assertEqual(passed, [], "passes: take it from KNOWN_MISSING")

    def test_what_is_left_out(self):
        self.skipTest("known to be missing: " + (", ".join(KNOWN_MISSING) or "nothing") + "; not run, as they need "
                      "too much: " + ", ".join(TOO_LARGE) + "; with one process per GPU only: " + ", ".join(ONE_LAYOUT))


if __name__ == "__main__":
    cases.main()
