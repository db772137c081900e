#!/usr/bin/env python3
"""Failures are detected fast, reported with an error message, and do not affect other jobs."""
import os
import random
import signal
import socket
import time
import unittest

from lab_world import DETECTION_LIMIT_S, Lab, cases, environment, foreign_environment, program


class Failures(unittest.TestCase):
    def setUp(self):
        self.lab = Lab(hosts=2, gpus=2)
        self.addCleanup(self.lab.down)
        self.job = program("tests/steady_job")

    def start(self, *arguments, options=(), ranks=4, **changes):
        job = self.lab.start(self.job, *arguments, options=options, env=environment(**changes))
        self.addCleanup(job.__exit__)
        self.assertTrue(job.has_printed("running", times=ranks), job.output + self.lab.logs())
        return job

    def assert_failure_reported(self, job, died_at, ranks):
        """Exactly these ranks report the failure within DETECTION_LIMIT_S."""
        self.assertNotEqual(job.wait(), 0)
        failed = dict(job.lines("failed"))
        self.assertEqual(sorted(failed), ranks, job.output + self.lab.logs())
        for rank, words in failed.items():
            self.assertLess(float(words[1]) - died_at, DETECTION_LIMIT_S, f"rank {rank}: {' '.join(words)}")

    def kill(self, pid):
        died_at = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        return died_at

    def test_a_killed_rank_fails_only_its_own_job(self):
        bystander = self.start("--seconds", 6)
        victim = self.start("--seconds", 60)
        died_at = self.kill(victim.ranks()[3])
        self.assert_failure_reported(victim, died_at, ranks=[0, 1, 2])
        self.assertEqual(bystander.wait(), 0, bystander.output)
        self.assertEqual(len(list(bystander.lines("done"))), 4)

    def test_a_killed_daemon_fails_only_its_ranks_and_their_peers(self):
        bystander = self.start("--seconds", 6, options=("--ranks", 2), ranks=2)  # on h0 alone
        victim = self.start("--seconds", 60)
        died_at = self.kill(self.lab.daemons()["h1"]["pid"])
        self.assert_failure_reported(victim, died_at, ranks=[0, 1, 2, 3])
        self.assertEqual(bystander.wait(), 0, bystander.output)
        self.assertEqual(self.lab.daemons()["h1"]["condition"], "killed by signal 9")

    def test_after_a_killed_rank_the_lab_takes_the_next_job(self):
        victim = self.start("--seconds", 60)
        self.kill(victim.ranks()[0])
        victim.wait()
        result = self.lab.run(program("one_rank_per_process"))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_a_rank_that_does_not_join_is_named_in_the_log_after_five_seconds(self):
        with self.lab.start(self.job, "--stay-out", 2, options=("--grace", 0)) as job:
            time.sleep(6.5)
            self.assertRegex(job.output + self.lab.logs(), "rank 2 has not joined")
            self.assertFalse(list(job.lines("rejected")), "without MCCS_INIT_TIMEOUT the ranks keep waiting")

    def test_with_a_time_limit_a_missing_rank_is_an_error_that_names_it(self):
        with self.lab.start(self.job, "--stay-out", 2, options=("--grace", 1),
                            env=environment(MCCS_INIT_TIMEOUT="2")) as job:
            self.assertNotEqual(job.wait(), 0)
            failed = dict(job.lines("rejected"))
            self.assertEqual(sorted(failed), [0, 1, 3], job.output)
            for words in failed.values():
                self.assertRegex(" ".join(words), "remote process.*rank 2 has not joined")

    def test_two_processes_with_the_same_rank_both_fail(self):
        with self.lab.start(self.job, "--claim", 0, options=("--ranks", 2, "--grace", 3)) as job:
            self.assertNotEqual(job.wait(), 0)
            self.assertEqual(sorted(rank for rank, _ in job.lines("rejected")), [0, 1], job.output)
            self.assertRegex(job.output, r"rank 0")

    def test_no_daemon_at_the_socket_is_a_system_error_within_a_second(self):
        started = time.monotonic()
        result = self.lab.exec("h0", "/usr/bin/env", "MCCS_SOCKET=/tmp/no-such/mccsd.sock", self.job)
        self.assertEqual(result.returncode, 1 if "GetUniqueId" in result.stderr else 4,
                         result.stdout + result.stderr)
        self.assertLess(time.monotonic() - started, DETECTION_LIMIT_S)
        self.assertRegex(result.stdout + result.stderr, r"unhandled system error.*/tmp/no-such/mccsd.sock")
        self.assertRegex(result.stdout + result.stderr, r"start.*mccsd|mccsd.*start")

    def test_garbage_on_the_socket_does_not_affect_other_tenants(self):
        bystander = self.start("--seconds", 3)
        seed = 20
        print(f"seed {seed}")
        random_bytes = random.Random(seed).randbytes
        for size in (0, 1, 8, 64, 200, 4000, 60000) * 10:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as visitor:
                visitor.connect(str(self.lab.directory / "h0/mccsd.sock"))
                for _ in range(3):
                    try:
                        visitor.send(random_bytes(size))
                    except (BrokenPipeError, ConnectionResetError):
                        break  # the daemon closed the connection
        self.assertEqual(bystander.wait(), 0, bystander.output + self.lab.logs())
        self.assertEqual(len(list(bystander.lines("done"))), 4)
        self.assertEqual(self.lab.daemons()["h0"]["condition"], "ready")

    def test_the_library_does_nothing_to_programs_that_do_not_use_it(self):
        result = self.lab.exec("h0", "/bin/sh", "-c", "echo $((1 + 1)); exit 5",
                               env=foreign_environment(MCCS_SOCKET="/tmp/no-such"))
        self.assertEqual((result.returncode, result.stdout, result.stderr), (5, "2\n", ""))

    # ---- Streams of a communicator that failed

    def dead_peer(self, how, blocked=0.5):
        """Runs dead_peer.cc and checks rank 0's verdict."""
        result = self.lab.run(program("dead_peer"), "--end", how, "--blocked", blocked, options=("--ranks", 2))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr + self.lab.logs())
        self.assertNotIn("FAILED", result.stdout)
        return result.stdout

    def test_a_call_whose_peer_is_dead_blocks_its_stream_until_the_abort(self):
        output = self.dead_peer("abort", blocked=5)
        self.assertRegex(output, r"async: remote process exited .* after 0\.\d+ s: rank 0 of 2 .*rank 1 left")
        self.assertRegex(output, r"(?s)blocked: for 5\.0 s.*released: by abort")

    def test_destroy_revoke_and_an_abort_by_another_thread_release_the_stream(self):
        for how in ("destroy", "revoke", "thread"):
            with self.subTest(how):
                self.assertIn(f"released: by {how}", self.dead_peer(how))

    def test_a_graph_whose_peer_is_dead_blocks_its_stream_until_the_abort(self):
        self.assertIn("released: by graph", self.dead_peer("graph"))

    def test_a_dead_peer_is_reported_to_a_rank_that_calls_nothing(self):
        self.assertIn("rank 1 left", self.dead_peer("idle"))

    def test_a_process_with_a_blocked_stream_exits_normally(self):
        for how in ("exit", "return", "fork"):
            with self.subTest(how):
                self.assertIn("ended: the destructor of a static object ran", self.dead_peer(how))

    def test_a_process_with_a_blocked_stream_ends_by_a_signal(self):
        with self.lab.start(program("dead_peer"), "--blocked", 60, options=("--ranks", 2)) as job:
            self.assertTrue(job.has_printed("async"), job.output)
            os.kill(job.ranks()[0], signal.SIGTERM)
            self.assertNotEqual(job.wait(), 0)
            self.assertNotIn("FAILED", job.output)


if __name__ == "__main__":
    cases.main()
