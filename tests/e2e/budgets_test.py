#!/usr/bin/env python3
"""The host's budget: a process beyond its tenant's share is told the numbers, and a process of another tenant is not
affected."""
import tempfile
import unittest

from lab_world import Lab, cases, program
from metrics_test import find, scrape

PROCESSES = 6  # of all tenants; one alone has half


class Budgets(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        config = tempfile.NamedTemporaryFile("w", suffix=".yaml")
        cls.addClassCleanup(config.close)
        config.write(f"limits: {{processes: {PROCESSES}}}\n")
        config.flush()
        cls.lab = Lab(hosts=1, gpus=3, name="budgets", mccsd_config=config.name, tenants="red,blue")
        cls.addClassCleanup(cls.lab.down)

    def reduce(self, tenant):
        return self.lab.run(program("one_rank_per_process"), options=("--ranks", 1, "--tenant", tenant))

    def test_the_next_process_is_told_the_numbers(self):
        steady = (program("tests/steady_job"), "--seconds", 600)
        with self.lab.start(*steady, options=("--tenant", "red")) as job:
            self.assertTrue(job.has_printed("running", times=3), job.output + self.lab.logs())
            refused = self.reduce("red")
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("too many connected processes on this host: tenant red has 3 and asks for 1 more, 3 of 6 are "
                          "free", refused.stdout + refused.stderr)
            other = self.reduce("blue")
            self.assertEqual(other.returncode, 0, other.stdout + other.stderr + self.lab.logs())
            samples = scrape(self.lab.daemons()["h0"]["metrics"])
            self.assertEqual(find(samples, "mccs_resource_limit", resource="processes"), PROCESSES)
            self.assertEqual(find(samples, "mccs_resource_held", resource="processes", tenant="red"), 3)
            self.assertGreater(find(samples, "mccs_resource_refusals_total", resource="processes", tenant="red"), 0)
            self.assertGreater(find(samples, "mccs_engine_work_seconds_total", tenant="red"), 0)
            self.assertFalse(job.has_ended())


if __name__ == "__main__":
    cases.main()
