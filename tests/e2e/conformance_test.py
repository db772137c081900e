#!/usr/bin/env python3
"""Runs the conformance suite on two hosts with four GPUs each, in three layouts, and
with one hardware queue per GPU, as Megatron sets it. Prints the suite's tables."""
import re
import unittest

from lab_world import Lab, cases, environment, program

# A whole run takes half a minute, or minutes on a loaded machine.
SUITE_TIMEOUT_S = 400
# Tests with gigabytes of memory run in one layout only.
LARGE = "/large/"
# Its ranks wait 30 s for one that has left. It runs in two layouts only, with one GPU and with several per process.
LONG = "/beyond_nccl/a_destroy_in_a_failed_group"


class Conformance(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(hosts=2, gpus=4)
        cls.addClassCleanup(cls.lab.down)

    def assert_passes(self, result):
        print(re.sub(r"(?m)^\[0\] ", "", result.stdout))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def suite(self, *arguments, options=(), env=None):
        return self.lab.run(program("conformance"), *arguments, options=options, timeout=SUITE_TIMEOUT_S, env=env)

    def test_one_process_per_gpu(self):
        self.assert_passes(self.suite("--exclude", LARGE))

    def test_counts_of_more_than_31_bits(self):
        self.assert_passes(self.suite("--filter", LARGE))

    def test_several_gpus_per_process(self):
        self.assert_passes(self.suite("-g", 2, "--exclude", LARGE, options=("--ranks-per-host", 2)))

    def test_one_process_with_all_gpus_of_a_host(self):
        self.assert_passes(self.lab.exec("h0", program("conformance"), "--exclude", LARGE, LONG, timeout=SUITE_TIMEOUT_S))

    def test_one_hardware_queue(self):
        self.assert_passes(self.suite("--exclude", LARGE, LONG, env=environment(CUDA_DEVICE_MAX_CONNECTIONS="1")))

    def test_more_ranks_than_gpus(self):
        for options in ((), ("-g", 2)):
            layout = ("--ranks-per-host", 2) if options else ()
            self.assert_passes(self.suite(*options, "--filter", "/multi_rank/", options=layout,
                                          env=environment(NCCL_MULTI_RANK_GPU_ENABLE="1")))

    def test_random_programs(self):
        self.assert_passes(self.suite("--random", "--seeds", 20))


if __name__ == "__main__":
    cases.main()
