#!/usr/bin/env python3
"""The daemon releases memory that a program frees, by any function that frees, and a free never blocks for long."""
import os
import pathlib
import signal
import time
import unittest

from lab_world import LIB, SANITIZED, Lab, cases, environment, eventually, program

MIB = 1 << 20
PIECE = 16 * MIB
# GPU memory of a program. One: enough for a piece and the result if the daemon releases freed memory at once. Two:
# enough if it detects frees only at the next export.
ROOM_FOR_ONE = "25M"
ROOM_FOR_TWO = "50M"


def mappings(pid):
    """Tenants' allocations that the daemon has mapped."""
    maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
    return sum("mccs-emulated-" in line for line in maps.splitlines())


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


class Lifetime(unittest.TestCase):
    def setUp(self):
        self.lab = Lab(hosts=2, gpus=1, name="lifetime")
        self.addCleanup(self.lab.down)
        self.churn = program("tests/allocation_churn")

    def start(self, way, rounds, memory=None, **changes):
        if memory:
            changes["MCCS_EMULATED_MEMORY"] = memory
        job = self.lab.start(self.churn, way, rounds, PIECE, env=environment(**changes))
        self.addCleanup(job.__exit__)
        return job

    def assert_done(self, job):
        self.assertEqual(job.wait(), 0, job.output + self.lab.logs())

    def assert_daemon_maps_two(self, job):
        daemon = self.lab.daemons()["h0"]["pid"]
        most = 0
        while not job.has_ended():
            most = max(most, mappings(daemon))
        self.assert_done(job)
        self.assertLessEqual(most, 2, "more than the result and one piece")
        self.assertGreaterEqual(most, 1)

    def test_intercepted_frees_release_the_daemons_mappings(self):
        self.assert_daemon_maps_two(self.start("seen", 100, memory=ROOM_FOR_ONE))

    def test_nccl_mem_free_releases_memory_immediately(self):
        daemon = self.lab.daemons()["h0"]["pid"]
        self.assert_daemon_maps_two(self.start("nccl", 3, memory=ROOM_FOR_ONE, MCCS_EXPORT_LEASE="0"))
        before = descriptors(daemon)
        self.assert_daemon_maps_two(self.start("nccl", 100, memory=ROOM_FOR_ONE, MCCS_EXPORT_LEASE="0"))
        self.assertTrue(eventually(lambda: descriptors(daemon) <= before), (descriptors(daemon), before))

    def test_the_next_export_detects_other_frees(self):
        self.assert_done(self.start("unseen", 100, memory=ROOM_FOR_TWO, MCCS_EXPORT_LEASE="0"))

    def test_deregistration_releases_memory_immediately(self):
        self.assert_done(self.start("registered", 20, memory=ROOM_FOR_ONE, MCCS_EXPORT_LEASE="0"))

    def test_the_end_of_a_lease_releases_unused_memory(self):
        job = self.start("left", 20, MCCS_EXPORT_LEASE="1")
        self.assert_done(job)
        times = [float(words[1]) for _, words in job.lines("back")]
        self.assertEqual(len(times), 2, job.output)
        self.assertLess(max(times), 10)

    def test_expiring_leases_do_not_affect_calls(self):
        result = self.lab.run(program("conformance"), "--random", "--seeds", 40,
                              env=environment(MCCS_EXPORT_LEASE="0.002"))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr + self.lab.logs())

    def test_a_free_waits_for_the_operation_that_uses_the_memory(self):
        job = self.start("early", 3, memory=ROOM_FOR_ONE)
        self.assert_done(job)
        (_, words), = job.lines("freed")
        self.assertGreater(float(words[1]), 0.2, "the other rank calls half a second later")

    def free_on_signal(self, signal_for_daemons, **changes):
        """Sends the signal to the daemons, lets each rank free, and returns the job and the seconds of each free."""
        job = self.start("on_signal", 1, **changes)
        self.assertTrue(job.has_printed("ready", times=2), job.output + self.lab.logs())
        daemons = [daemon["pid"] for daemon in self.lab.daemons().values()]
        try:
            for pid in daemons:
                os.kill(pid, signal_for_daemons)
            time.sleep(0.2)  # until a dead daemon is detected
            for pid in job.ranks():
                os.kill(pid, signal.SIGUSR1)
            self.assertTrue(job.has_printed("freed", times=2), job.output)
        finally:
            if signal_for_daemons == signal.SIGSTOP:
                for pid in daemons:
                    os.kill(pid, signal.SIGCONT)
        job.wait()
        return job, [float(words[1]) for _, words in job.lines("freed")]

    def test_a_dead_daemon_does_not_block_frees(self):
        _, times = self.free_on_signal(signal.SIGKILL)
        self.assertLess(max(times), 1)

    def test_a_hanging_daemon_blocks_a_free_for_two_seconds(self):
        job, times = self.free_on_signal(signal.SIGSTOP, NCCL_DEBUG="WARN")
        self.assertGreater(min(times), 1.5)
        self.assertLess(max(times), 10)
        self.assertIn("is freed, but the MCCS daemon did not release it within", job.output)

    def test_the_free_hooks_alone_change_nothing(self):
        if SANITIZED:
            self.skipTest("a sanitizer's runtime must be the first preloaded library")
        preload = f"{LIB}/libmccs-free-hooks.so"
        for command in (["/bin/true"], ["python3", "-c", "print('fine')"], ["sh", "-c", "ls / | cat"]):
            result = self.lab.exec("h0", "env", f"LD_PRELOAD={preload}", *command)
            self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_warns_if_preloaded_after_cudas_libraries(self):
        if SANITIZED:
            self.skipTest("a sanitizer's runtime must be the first preloaded library")
        preload = ":".join(f"{LIB}/{name}" for name in ("emulation/libcudart.so.13", "emulation/libcuda.so.1",
                                                         "libmccs-free-hooks.so", "libnccl.so.2"))
        result = self.lab.exec("h0", "env", f"LD_PRELOAD={preload}", "NCCL_DEBUG=WARN", self.churn, "seen", 1, MIB)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("put it first in LD_PRELOAD", result.stdout)


if __name__ == "__main__":
    cases.main()
