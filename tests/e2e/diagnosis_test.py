#!/usr/bin/env python3
"""Diagnosis of a stalled job: hints, which rank waits for which, and the library's log."""
import json
import os
import signal
import unittest

from lab_world import Lab, cases, environment, eventually, program


class Diagnosis(unittest.TestCase):
    def setUp(self):
        self.lab = Lab(hosts=2, gpus=1, name="questions")
        self.addCleanup(self.lab.down)

    def controller(self, *words):
        return self.lab.exec("h0", program("mccsctl"), *words)

    def start(self, **changes):
        job = self.lab.start(program("tests/steady_job"), "--seconds", 120, env=environment(**changes))
        self.addCleanup(job.__exit__)
        self.assertTrue(job.has_printed("running", times=2), job.output + self.lab.logs())
        return job

    def describe(self):
        listed = json.loads(self.controller("get", "communicators", "-o", "json").stdout)["communicators"]
        return json.loads(self.controller("describe", "communicator", listed[-1]["id"], "-o", "json").stdout)

    def test_reports_a_stalled_rank_until_it_continues(self):
        job = self.start(MCCS_WARN_AFTER="0.3")
        stopped = job.ranks()[1]
        os.kill(stopped, signal.SIGSTOP)
        try:
            stalled_on = eventually(lambda: self.describe().get("stalled_on"), timeout=30)
            self.assertTrue(stalled_on, self.lab.logs())
            # SIGSTOP hits rank 1 before the call, or between the call and its stream.
            self.assertRegex(self.describe()["stalled_on"][0], "rank 0 waits for rank 1 on h1, "
                                                            "(which has not called|whose stream has not reached) it")
            for host in ("h0", "h1"):
                self.assertIn("rank 0 waits for rank 1 on h1", self.lab.command("logs", host).stdout)
        finally:
            os.kill(stopped, signal.SIGCONT)
        self.assertTrue(eventually(lambda: not self.describe().get("stalled_on"), timeout=30), self.lab.logs())

    def test_hints_of_the_environment_are_shown(self):
        self.start(NCCL_ALGO="^NVLS", NCCL_MAX_NCHANNELS="4", NCCL_IB_TC="106")
        hints = self.describe()["hints"]
        self.assertEqual((hints["algorithms"], hints["max_channels"], hints["traffic_class"]), ("^NVLS", 4, 106))

    def test_the_library_logs_to_nccl_debug_file(self):
        directory = self.lab.directory
        self.start(NCCL_DEBUG="INFO", NCCL_DEBUG_FILE=f"{directory}/nccl.%p.log", NCCL_SOCKET_IFNAME="eth0")
        logs = [path.read_text() for path in directory.glob("nccl.*.log")]
        self.assertEqual(len(logs), 2)
        for log in logs:
            self.assertIn("MCCS INFO NCCL_SOCKET_IFNAME (environment, 'eth0') is ignored", log)
            self.assertIn("is ready", log)


if __name__ == "__main__":
    cases.main()
