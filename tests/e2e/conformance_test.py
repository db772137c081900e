#!/usr/bin/env python3
"""Runs the conformance suite on two hosts with four GPUs each, in three layouts, and
with one hardware queue per GPU, as Megatron sets it. Prints the suite's tables."""
import re
import unittest

from lab_world import ON_KERNELS, Lab, cases, environment, program

# A whole run takes half a minute, or minutes on a loaded machine.
SUITE_TIMEOUT_S = 400
# A thousand random programs take longer.
RANDOM_TIMEOUT_S = 900
SEEDS = 1000 if ON_KERNELS else 20
# Tests with gigabytes of memory run in one layout only.
LARGE = "/large/"
# Its ranks wait 30 s for one that has left: it runs beside the other tests, with one GPU and with several per process.
LONG = "/beyond_nccl/a_destroy_in_a_failed_group"

# With kernels, the thread that copies puts needs a hardware queue in which no stream waits for it
# (docs/decisions/0066-kernels-of-tenants.md, Limits): they run with as many queues as a GPU can have.
PUTS = ("/one_sided/",) if ON_KERNELS else ()


class Conformance(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(hosts=2, gpus=4)
        cls.addClassCleanup(cls.lab.down)
        long = program("conformance"), "--filter", LONG
        cls.long_tests = [cls.enterClassContext(cls.lab.start(*long)),
                          cls.enterClassContext(cls.lab.start(*long, "-g", 2, options=("--ranks-per-host", 2)))]

    def assert_passes(self, status, output):
        table = re.sub(r"(?m)^\[0\] ", "", output)
        print(table)
        self.assertEqual(status, 0, output)
        found = re.search(r"(?m)^all +(\d+) ", table)
        self.assertIsNotNone(found, output)
        self.tests_run = getattr(self, "tests_run", 0) + int(found[1])

    def suite(self, *arguments, options=(), env=None, timeout=SUITE_TIMEOUT_S):
        result = self.lab.run(program("conformance"), *arguments, options=options, timeout=timeout, env=env)
        self.assert_passes(result.returncode, result.stdout + result.stderr)

    def test_one_process_per_gpu(self):
        self.suite("--exclude", LARGE, LONG, *PUTS)

    def test_counts_of_more_than_31_bits(self):
        # The limit ends what hangs: 16 GiB under sanitizers take most of the usual minute on two cores.
        self.suite("--filter", LARGE, "--limit", SUITE_TIMEOUT_S // 2)

    def test_several_gpus_per_process(self):
        self.suite("-g", 2, "--exclude", LARGE, LONG, *PUTS, options=("--ranks-per-host", 2))

    def test_one_process_with_all_gpus_of_a_host(self):
        result = self.lab.exec("h0", program("conformance"), "--exclude", LARGE, LONG, *PUTS,
                               timeout=SUITE_TIMEOUT_S)
        self.assert_passes(result.returncode, result.stdout + result.stderr)

    @unittest.skipUnless(PUTS, "the other tests include them")
    def test_puts(self):
        env = environment(CUDA_DEVICE_MAX_CONNECTIONS="32")
        self.suite("--filter", *PUTS, env=env)
        self.suite("-g", 2, "--filter", *PUTS, options=("--ranks-per-host", 2), env=env)

    def test_one_hardware_queue(self):
        self.suite("--exclude", LARGE, LONG, *PUTS, env=environment(CUDA_DEVICE_MAX_CONNECTIONS="1"))

    def test_more_ranks_than_gpus(self):
        for options in ((), ("-g", 2)):
            layout = ("--ranks-per-host", 2) if options else ()
            self.suite(*options, "--filter", "/multi_rank/", options=layout,
                       env=environment(NCCL_MULTI_RANK_GPU_ENABLE="1"))

    def test_random_programs(self):
        self.suite("--random", "--seeds", SEEDS, options=("--ranks-per-host", 2), timeout=RANDOM_TIMEOUT_S)

    def test_ranks_that_wait_for_one_that_left(self):
        for job in self.long_tests:
            self.assert_passes(job.wait(), job.output)


if __name__ == "__main__":
    cases.main()
