#!/usr/bin/env python3
"""Hosts with kernels whose processes cannot use each other's memory, or share GPUs, on emulated GPUs."""
import json
import pathlib
import re
import sys
import tempfile
import unittest

from lab_world import Lab, cases, environment, eventually, foreign_environment, program

SUITE_TIMEOUT_S = 600
LAUNCHES = pathlib.Path(__file__).with_name("count_launches.py")
GROUPS = ("/all_reduce/", "/all_gather/", "/reduce_scatter/", "/all_to_all/", "/broadcast/", "/reduce/", "/operators/",
          "/graphs/", "/groups/", "/streams/", "/split/", "/point_to_point/", "/virtual_memory/", "/registration/")
# Streams share hardware queues: copies of staging memory, and waits by memory operations, block other streams there
# (docs/decisions/0025-waiting-kernel.md, Limits).
QUEUES = "/streams/more_streams_than_hardware_queues"


class HostsWithKernels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        config = cls.enterClassContext(tempfile.NamedTemporaryFile("w", suffix=".yaml"))
        config.write("device: gpu\n")
        config.flush()
        cls.lab = Lab(hosts=2, gpus=4, name="kernel-hosts", mccsd_config=config.name)
        cls.addClassCleanup(cls.lab.down)

    def suite(self, *arguments, options=(), **changes):
        result = self.lab.run(program("conformance"), "--filter", *GROUPS, "--exclude", QUEUES, *arguments,
                              options=options, env=environment(**changes), timeout=SUITE_TIMEOUT_S)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def describe(self):
        listed = json.loads(self.lab.exec("h0", program("mccsctl"), "get", "communicators", "-o", "json").stdout)
        if not listed.get("communicators"):
            return {}
        return json.loads(self.lab.exec("h0", program("mccsctl"), "describe", "communicator",
                                        listed["communicators"][-1]["id"], "-o", "json").stdout)

    def test_puts(self):
        """A thread copies them on a stream of its own, which must not share a queue with a stream that waits for it."""
        for access in ("none", "all"):
            for connections in ("1", "8"):
                result = self.lab.run(program("conformance"), "--filter", "/one_sided/", options=("--ranks-per-host", 3),
                                      env=environment(MCCS_EMULATED_PEER_ACCESS=access,
                                                      CUDA_DEVICE_MAX_CONNECTIONS=connections),
                                      timeout=SUITE_TIMEOUT_S)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_conformance_without_access_between_gpus(self):
        for access in ("none", "0-1,2-3"):
            self.suite(options=("--ranks-per-host", 3), MCCS_EMULATED_PEER_ACCESS=access)

    def test_conformance_of_processes_with_several_gpus(self):
        for access in ("all", "none"):
            self.suite("-g", 2, options=("--ranks-per-host", 2), MCCS_EMULATED_PEER_ACCESS=access)

    def test_the_reason_for_staging_is_reported(self):
        job = self.lab.start(program("tests/steady_job"), "--seconds", 120, options=("--ranks-per-host", 2),
                             env=environment(MCCS_EMULATED_PEER_ACCESS="none", NCCL_DEBUG="WARN"))
        self.addCleanup(job.__exit__)
        self.assertTrue(job.has_printed("running", times=4), job.output + self.lab.logs())
        staged = eventually(lambda: len(self.describe().get("staged", ())) == 2, timeout=30)
        self.assertTrue(staged, self.describe())
        for line, host in zip(self.describe()["staged"], ("h0", "h1")):
            self.assertRegex(line, rf"^{host}: rank \d cannot use memory of rank \d, .*host memory.*nvidia-smi"
                                   r".*CUDA_ERROR_PEER_ACCESS_UNSUPPORTED")
        self.assertEqual(job.output.count("cannot use memory of rank"), 4, "once per communicator and rank")
        self.assertEqual(job.output.count("nvidia-smi topo"), 4, "the remedy fits")
        for host in ("h0", "h1"):
            self.assertIn("CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", self.lab.command("logs", host).stdout)

    def test_with_access_nothing_is_staged(self):
        job = self.lab.start(program("tests/steady_job"), "--seconds", 120, options=("--ranks-per-host", 2),
                             env=environment(NCCL_DEBUG="WARN"))
        self.addCleanup(job.__exit__)
        self.assertTrue(job.has_printed("running", times=4), job.output + self.lab.logs())
        self.assertTrue(eventually(lambda: self.describe().get("progress"), timeout=30))
        self.assertEqual(self.describe().get("staged", []), [])
        self.assertNotIn("cannot use memory", job.output)

    def test_conformance_of_processes_that_share_gpus(self):
        for gpus in ("0,1", "0"):  # two and four processes on each
            self.suite(CUDA_VISIBLE_DEVICES=gpus, NCCL_MULTI_RANK_GPU_ENABLE="1")

    # Kernels of two processes would take turns in time slices.
    def test_one_process_of_a_gpu_launches_kernels(self):
        for ranks in (2, 4):
            with tempfile.TemporaryDirectory() as directory:
                result = self.lab.run(sys.executable, LAUNCHES, f"{directory}/id",
                                      options=("--hosts", "h0", "--ranks", ranks),
                                      env=foreign_environment(NCCL_MULTI_RANK_GPU_ENABLE="1"))
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            launches = re.findall(r"rank \d: (\d+) of mccs_run_commands, (\d+) of mccs_await_fence", result.stdout)
            self.assertEqual(sorted(launches), [("0", "0")] * (ranks - 1) + [("1", "0")], result.stdout)


if __name__ == "__main__":
    cases.main()
