#!/usr/bin/env python3
"""The daemon releases memory that a program frees, in whichever way it frees it, and a free never blocks for long."""
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

    def test_frees_that_are_seen_leave_nothing_with_the_daemon(self):
        self.assert_daemon_maps_two(self.start("seen", 100, memory=ROOM_FOR_ONE))

    def test_memory_of_nccl_is_given_back_at_once(self):
        daemon = self.lab.daemons()["h0"]["pid"]
        self.assert_daemon_maps_two(self.start("nccl", 3, memory=ROOM_FOR_ONE, MCCS_EXPORT_LEASE="0"))
        before = descriptors(daemon)
        self.assert_daemon_maps_two(self.start("nccl", 100, memory=ROOM_FOR_ONE, MCCS_EXPORT_LEASE="0"))
        self.assertTrue(eventually(lambda: descriptors(daemon) <= before), (descriptors(daemon), before))

    def test_frees_that_nobody_sees_are_found_out_with_the_next_export(self):
        self.assert_done(self.start("unseen", 100, memory=ROOM_FOR_TWO, MCCS_EXPORT_LEASE="0"))

    def test_deregistering_gives_the_memory_back_at_once(self):
        self.assert_done(self.start("registered", 20, memory=ROOM_FOR_ONE, MCCS_EXPORT_LEASE="0"))

    def test_what_nobody_uses_is_let_go_when_its_lease_ends(self):
        job = self.start("left", 20, MCCS_EXPORT_LEASE="1")
        self.assert_done(job)
        times = [float(words[1]) for _, words in job.lines("back")]
        self.assertEqual(len(times), 2, job.output)
        self.assertLess(max(times), 10)

    def test_leases_that_end_all_the_time_hurt_no_call(self):
        result = self.lab.run(program("conformance"), "--random", "--seeds", 40,
                              env=environment(MCCS_EXPORT_LEASE="0.002"))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr + self.lab.logs())

    def test_a_free_waits_for_the_operation_that_uses_the_memory(self):
        job = self.start("early", 3, memory=ROOM_FOR_ONE)
        self.assert_done(job)
        (_, words), = job.lines("freed")
        self.assertGreater(float(words[1]), 0.2, "the other rank calls half a second later")

    def told_to_free(self, signal_for_daemons, **changes):
        """Sends the signal to the daemons, lets each rank free, and returns the job and the seconds of each free."""
        job = self.start("told", 1, **changes)
        self.assertTrue(job.says("ready", times=2), job.output + self.lab.logs())
        daemons = [daemon["pid"] for daemon in self.lab.daemons().values()]
        try:
            for pid in daemons:
                os.kill(pid, signal_for_daemons)
            time.sleep(0.2)  # until a dead daemon is detected
            for pid in job.ranks():
                os.kill(pid, signal.SIGUSR1)
            self.assertTrue(job.says("freed", times=2), job.output)
        finally:
            if signal_for_daemons == signal.SIGSTOP:
                for pid in daemons:
                    os.kill(pid, signal.SIGCONT)
        job.wait()
        return job, [float(words[1]) for _, words in job.lines("freed")]

    def test_a_dead_daemon_holds_no_free_up(self):
        _, times = self.told_to_free(signal.SIGKILL)
        self.assertLess(max(times), 1)

    def test_a_daemon_that_hangs_holds_a_free_up_for_two_seconds_and_is_named(self):
        job, times = self.told_to_free(signal.SIGSTOP, NCCL_DEBUG="WARN")
        self.assertGreater(min(times), 1.5)
        self.assertLess(max(times), 10)
        self.assertIn("is freed while the MCCS daemon still maps it", job.output)

    def test_the_library_of_frees_alone_changes_nothing(self):
        if SANITIZED:
            self.skipTest("a sanitizer's runtime must be the first preloaded library")
        preload = f"{LIB}/libmccs-frees.so"
        for command in (["/bin/true"], ["python3", "-c", "print('fine')"], ["sh", "-c", "ls / | cat"]):
            result = self.lab.exec("h0", "env", f"LD_PRELOAD={preload}", *command)
            self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_behind_cudas_libraries_it_says_that_it_sees_nothing(self):
        if SANITIZED:
            self.skipTest("a sanitizer's runtime must be the first preloaded library")
        preload = ":".join(f"{LIB}/{name}" for name in ("emulation/libcudart.so.13", "emulation/libcuda.so.1",
                                                         "libmccs-frees.so", "libnccl.so.2"))
        result = self.lab.exec("h0", "env", f"LD_PRELOAD={preload}", "NCCL_DEBUG=WARN", self.churn, "seen", 1, MIB)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("put it first in LD_PRELOAD", result.stdout)


if __name__ == "__main__":
    cases.main()
