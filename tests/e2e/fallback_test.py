#!/usr/bin/env python3
"""MCCS_FALLBACK=nccl if all hosts or only some of them have a daemon."""
import unittest

from lab_world import Lab, cases, environment, program

# Rank 1's process finds no daemon.
WITHOUT_DAEMON = 'if [ "$RANK" = 1 ]; then export MCCS_SOCKET=/nonexistent/mccsd.sock; fi; exec "$0"'


class Fallback(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(hosts=2, gpus=1, name="fallback")
        cls.addClassCleanup(cls.lab.down)

    def run_job(self, *arguments, **changes):
        return self.lab.run(*arguments, env=environment(MCCS_FALLBACK="nccl", **changes))

    def test_a_job_with_daemons_uses_them_and_logs_it(self):
        result = self.run_job(program("one_rank_per_process"))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        output = result.stdout + result.stderr
        self.assertEqual(output.count("NCCL calls of this process go to the MCCS daemon at"), 2, output)

    def test_a_rank_without_a_daemon_fails(self):
        result = self.run_job("sh", "-c", WITHOUT_DAEMON, program("one_rank_per_process"),
                              MCCS_INIT_TIMEOUT="3", NCCL_DEBUG="WARN")
        output = result.stdout + result.stderr
        self.assertNotEqual(result.returncode, 0, output)
        self.assertIn("[1]", output)
        self.assertIn("no MCCS daemon at /nonexistent/mccsd.sock", output)


if __name__ == "__main__":
    cases.main()
