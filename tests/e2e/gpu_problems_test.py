#!/usr/bin/env python3
"""What prevents or slows programs on GPUs, as NVML reports it, in `mccsctl get hosts`. The NVML is emulated."""
import json
import unittest

from lab_world import LIB, Lab, call, cases, environment, eventually, program

# A daemon gives NVML 20 s.
HANG_TIMEOUT_S = 40


def up(name, gpu="emulated", **variables):
    return Lab(hosts=2, gpus=2, name=name, env=environment(MCCS_GPU=gpu, **variables))


class GpuProblems(unittest.TestCase):
    def hosts(self, lab):
        return json.loads(lab.exec("h0", program("mccsctl"), "get", "hosts", "-o", "json").stdout)["hosts"]

    def problems(self, lab):
        return [host["host"].get("gpu_survey", {}).get("problems", []) for host in self.hosts(lab)]

    def test_modes_of_gpus_are_shown_with_the_remedy(self):
        with up("gpu-modes", MCCS_EMULATED_MIG="1", MCCS_EMULATED_COMPUTE_MODE="exclusive_process",
                MCCS_EMULATED_PEER_ACCESS="none") as lab:
            self.assertTrue(eventually(lambda: all(self.problems(lab)), timeout=30), lab.logs())
            for host in self.hosts(lab):
                survey = host["host"]["gpu_survey"]
                self.assertEqual([gpu["mig"] for gpu in survey["gpus"]], ["off", "on"])
                self.assertEqual({gpu["compute_mode"] for gpu in survey["gpus"]}, {"exclusive_process"})
                self.assertEqual(survey["driver_version"], "580.0")
                self.assertEqual(len(survey["problems"]), 3, survey)
            table = lab.exec("h0", program("mccsctl"), "get", "hosts").stdout
            self.assertEqual(table.count("ready, GPU problem"), 2, table)
            for host in ("h0", "h1"):
                self.assertIn(f"Note: host {host}: GPUs 0, 1: compute mode exclusive_process", table)
                self.assertRegex(table, f"Note: host {host}: GPU 1: MIG is on: .*; nvidia-smi -i 1 -mig 0")
                self.assertIn(f"Note: host {host}: GPUs 0-1: no access to each other's memory", table)
                self.assertIn("compute mode exclusive_process", lab.command("logs", host).stdout)
            # They are reported and change nothing: this NVML's modes are not those of the emulated CUDA.
            result = lab.run(program("collective_perf"), "-b", "8", "-e", "8K", "-n", 2)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_healthy_gpus_have_no_problem(self):
        with up("gpu-healthy") as lab:
            self.assertTrue(eventually(lambda: all("gpu_survey" in host["host"] for host in self.hosts(lab)), timeout=30))
            self.assertEqual(self.problems(lab), [[], []])
            self.assertRegex(lab.command("logs", "h0").stdout, r"GPUs: 2 × Emulated H100 .*, driver 580\.0 \(CUDA 13\.0\)")

    def test_hosts_whose_kernels_run_no_collectives_read_no_gpus(self):
        with up("gpu-none", gpu="", MCCS_EMULATED_MIG="all") as lab:
            self.assertEqual(self.problems(lab), [[], []])
            self.assertNotIn("GPUs:", lab.command("logs", "h0").stdout)

    def test_an_nvml_that_hangs_stops_no_daemon(self):
        with up("gpu-hangs", MCCS_EMULATED_NVML="hangs") as lab:
            result = lab.run(program("collective_perf"), "-b", "8", "-e", "8K", "-n", 2)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertEqual(self.problems(lab), [[], []], "NVML may still answer")
            self.assertTrue(eventually(lambda: all(self.problems(lab)), timeout=HANG_TIMEOUT_S), lab.logs())
            for problems in self.problems(lab):
                self.assertRegex(problems[0], "cannot be read: NVML has not answered for 20 s")

    def test_the_check_of_a_host_needs_no_daemon(self):
        def check(**variables):
            return call(program("mccsd"), "--check-gpus", env=environment(MCCS_EMULATED_GPUS="8", **variables))

        healthy = check(LD_LIBRARY_PATH=str(LIB / "emulation"))
        self.assertEqual(healthy.returncode, 0, healthy.stdout + healthy.stderr)
        self.assertIn("no problem found", healthy.stdout)
        sick = check(LD_LIBRARY_PATH=str(LIB / "emulation"), MCCS_EMULATED_MIG="3")
        self.assertEqual(sick.returncode, 1)
        self.assertIn("problem: GPU 3: MIG is on", sick.stdout)


if __name__ == "__main__":
    cases.main()
