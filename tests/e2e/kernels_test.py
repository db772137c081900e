#!/usr/bin/env python3
"""Runs programs on hosts whose collectives are run by kernels of the programs' own processes, on emulated GPUs."""
import pathlib
import re
import tempfile
import unittest

from lab_world import DETECTION_LIMIT_S, Lab, cases, eventually, program

SUITE_TIMEOUT_S = 600
# Of gigabytes; and one that waits 30 s for a rank that has left.
LONG = ("/large/", "/beyond_nccl/a_destroy_in_a_failed_group")
GROUPS = ("/all_reduce/", "/all_gather/", "/reduce_scatter/", "/all_to_all/", "/broadcast/", "/reduce/", "/gather/",
          "/scatter/", "/operators/", "/graphs/", "/groups/", "/streams/", "/split/", "/shrink/", "/life_cycle/",
          "/beyond_nccl/", "/one_sided/", "/point_to_point/", "/memory/", "/virtual_memory/", "/registration/", "/zero_counts/")


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

    def test_the_daemons_open_no_context(self):
        """So GPUs in exclusive-process mode serve the tenant's process."""
        with self.lab.start(program("tests/steady_job"), "--seconds", 2) as job:
            self.assertTrue(job.has_printed("running", 4), job.output + self.lab.logs())
            for host in ("h0", "h1"):
                maps = pathlib.Path(f"/proc/{self.lab.daemons()[host]['pid']}/maps").read_text()
                self.assertIn("mccsd", maps)
                self.assertNotIn("libcuda", maps)
            self.assertEqual(job.wait(), 0, job.output)

    def test_a_gpu_that_fails_ends_its_communicators_and_no_others(self):
        script = "if [ $RANK = 3 ]; then export MCCS_EMULATED_FAULT=1:20:214; fi; exec \"$@\""
        bystander = self.lab.start(program("tests/steady_job"), "--seconds", 4, options=("--ranks", 2))
        self.addCleanup(bystander.__exit__)
        with self.lab.start("/bin/sh", "-c", script, "sh", program("tests/steady_job"), "--seconds", 60) as job:
            job.wait()
            failed = {rank: " ".join(words) for rank, words in job.lines("failed")}
            self.assertEqual(sorted(failed), [0, 1, 2, 3], job.output + self.lab.logs())
            for rank, text in failed.items():
                self.assertRegex(text, r"GPU 0000:\S+ \(CUDA device 1\) has failed: .*CUDA_ERROR_ECC_UNCORRECTABLE")
                self.assertIn("reset the GPU", text)
                if rank != 3:
                    self.assertIn("rank 3: GPU", text)
        self.assertEqual(bystander.wait(), 0, bystander.output)

    def test_a_launch_that_fails_ends_its_communicator_while_the_process_lives(self):
        script = "if [ $RANK = 3 ]; then export MCCS_EMULATED_LAUNCH_FAULT=1:20:701; fi; exec \"$@\""
        with self.lab.start("/bin/sh", "-c", script, "sh", program("tests/steady_job"), "--seconds", 60, "--linger", 5
                            ) as job:
            self.assertTrue(eventually(lambda: len(list(job.lines("failed"))) == 4), job.output + self.lab.logs())
            failed = dict(job.lines("failed"))
            for rank, words in failed.items():
                text = " ".join(words)
                self.assertIn("cannot launch the kernel of a posted call: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", text)
                self.assertIn("free GPU memory", text)
                if rank != 3:
                    self.assertIn("rank 3: CUDA device 1", text)
            times = [float(words[1]) for words in failed.values()]
            self.assertLess(max(times) - min(times), DETECTION_LIMIT_S, job.output)
            job.wait()

    def test_all_collectives(self):
        result = self.lab.run(program("collective_perf"), "--op", "all", "-b", "8", "-e", "2M", "-f", 64, "-n", 3,
                              timeout=SUITE_TIMEOUT_S)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("Out of bounds values : 0 OK", result.stdout)

    def test_conformance(self):
        result = self.lab.run(program("conformance"), "--filter", *GROUPS, "--exclude", *LONG,
                              timeout=SUITE_TIMEOUT_S)
        print(re.sub(r"(?m)^\[0\] ", "", result.stdout))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


if __name__ == "__main__":
    cases.main()
