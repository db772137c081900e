#!/usr/bin/env python3
"""Runs programs on hosts whose collectives are run by kernels of the programs' own processes, on emulated GPUs."""
import re
import tempfile
import unittest

from lab_world import PUTS, Lab, cases, program

SUITE_TIMEOUT_S = 600
# Of gigabytes; and one that waits 30 s for a rank that has left.
LONG = ("/large/", "/beyond_nccl/a_destroy_in_a_failed_group")
GROUPS = ("/all_reduce/", "/all_gather/", "/reduce_scatter/", "/all_to_all/", "/broadcast/", "/reduce/", "/gather/",
          "/scatter/", "/operators/", "/graphs/", "/groups/", "/streams/", "/split/", "/shrink/", "/life_cycle/",
          "/beyond_nccl/", "/point_to_point/", "/one_sided/", "/memory/", "/virtual_memory/", "/registration/", "/zero_counts/")


class Kernels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        config = cls.enterClassContext(tempfile.NamedTemporaryFile("w", suffix=".yaml"))
        config.write("device: gpu\n")
        config.flush()
        cls.lab = Lab(hosts=2, gpus=2, name="kernels", mccsd_config=config.name)
        cls.addClassCleanup(cls.lab.down)

    def test_the_daemons_say_that_kernels_run_collectives(self):
        self.assertIn("kernels of tenants", self.lab.command("logs", "h0").stdout)

    def test_all_collectives(self):
        result = self.lab.run(program("collective_perf"), "--op", "all", "-b", "8", "-e", "2M", "-f", 64, "-n", 3,
                              timeout=SUITE_TIMEOUT_S)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("Out of bounds values : 0 OK", result.stdout)

    def test_conformance(self):
        result = self.lab.run(program("conformance"), "--filter", *GROUPS, "--exclude", *PUTS, *LONG,
                              timeout=SUITE_TIMEOUT_S)
        print(re.sub(r"(?m)^\[0\] ", "", result.stdout))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


if __name__ == "__main__":
    cases.main()
