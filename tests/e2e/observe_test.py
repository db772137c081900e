#!/usr/bin/env python3
"""mccsctl top, describe, explain, dump, trace and drain while a job runs."""
import json
import os
import pty
import re
import signal
import subprocess
import tempfile
import unittest

from lab_world import TIMEOUT_S, Lab, call, cases, environment, eventually, program

SIZE = 65536 * 4  # of steady_job's calls, in bytes


class WhileAProgramRuns(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(hosts=2, gpus=1, name="observe")
        cls.tenant = f"uid {os.getuid()}"
        cls.job = cls.lab.start(program("tests/steady_job"), "--seconds", 600)
        if not cls.job.has_printed("running", times=2):
            raise AssertionError(cls.job.output + cls.lab.logs())

    @classmethod
    def tearDownClass(cls):
        cls.job.__exit__()
        cls.lab.down()

    def mccsctl(self, *words):
        return self.lab.exec("h0", program("mccsctl"), *words)

    def run_ok(self, *words):
        result = self.mccsctl(*words)
        self.assertEqual(result.returncode, 0, f"{words}: {result.stdout}{result.stderr}")
        return result.stdout

    def test_top_measures_one_interval(self):
        top = json.loads(self.run_ok("top", "--once", "--interval", "2", "-o", "json"))
        self.assertGreaterEqual(top["seconds"], 2)
        rates, = top["communicators"]
        self.assertEqual((rates["tenant"], rates["ranks"], rates["state"]), (self.tenant, 2, "active"))
        self.assertGreater(rates["operations_per_second"], 0)
        # With two ranks busbw equals algbw; all calls have the same size.
        self.assertAlmostEqual(rates["algbw"] / rates["operations_per_second"] / SIZE, 1, places=6)
        self.assertAlmostEqual(rates["busbw"] / rates["algbw"], 1, places=6)
        self.assertEqual((rates["links"], rates["pairs"]), ([], ["h0 → h1", "h1 → h0"]))

    def test_explain_shows_reasons_and_rates(self):
        listed = json.loads(self.run_ok("get", "communicators", "-o", "json"))["communicators"]
        output = json.loads(self.run_ok("explain", "communicator", listed[0]["id"][:6], "-o", "json"))
        why = {fact["name"]: fact["value"] for fact in output["reasons"]}
        self.assertEqual(why["Policy"], "locality_ring: no Policy selects this communicator")
        self.assertIn("no Topology", why["Paths"])
        rings = [flow for flow in output["flows"] if flow["in_ring"]]
        self.assertEqual({(flow["from"], flow["to"]) for flow in rings}, {("h0", "h1"), ("h1", "h0")})
        self.assertGreater(sum(flow["measured_bps"] for flow in output["flows"]), 0)
        self.assertRegex(self.run_ok("explain", "communicator", listed[0]["id"]), r"\n  0 +h0 +h1 +127\.0\.0\.\d:\d+ ")
        missing = self.mccsctl("explain", "communicator", "abcdefabcdef")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("no communicator id starts with", missing.stderr)

    def test_top_lists_running_communicators(self):
        table = self.run_ok("top", "--once", "--interval", "1").splitlines()
        self.assertEqual(table[0].split(), ["TENANT", "COMMUNICATOR", "NAME", "RANKS", "OPS/S", "ALGBW", "BUSBW",
                                            "LINKS", "STATE"])
        self.assertRegex(table[1], rf"^{self.tenant} +[0-9a-f]{{16}} .* \d+\.\d\d [kMG]B/s .* 2 pairs  active$")
        self.assertIn("h0 → h1, h1 → h0", self.run_ok("top", "--once", "--interval", "0.2", "-o", "wide"))

    def test_top_refreshes_in_place_and_restores_the_terminal(self):
        # Without mccs-lab exec, which would handle the interrupt itself.
        shell, terminal = pty.openpty()
        top = subprocess.Popen([*self.lab.mccsctl(), "top", "--interval", "0.2"], stdin=terminal, stdout=terminal,
                               stderr=terminal, env=environment(), start_new_session=True)
        os.close(terminal)
        os.set_blocking(shell, False)
        output = b""

        def read():
            nonlocal output
            try:
                output += os.read(shell, 1 << 16)
            except (BlockingIOError, OSError):
                pass
            return output
        try:
            self.assertTrue(eventually(lambda: read().count(b"\x1b[H") >= 3), output)
            top.send_signal(signal.SIGINT)
            self.assertEqual(top.wait(TIMEOUT_S), 0)
            read()
        finally:
            top.kill()
            top.wait()
            os.close(shell)
        self.assertTrue(output.startswith(b"\x1b[?1049h"), output[:80])
        self.assertTrue(output.endswith(b"\x1b[?25h\x1b[?1049l"), output[-80:])
        self.assertIn(b"BUSBW", output)

    def test_dump_is_the_daemons_own_state(self):
        state = json.loads(self.run_ok("dump", "h1"))
        self.assertEqual(state["host"], "h1")
        session, = state["sessions"]
        self.assertEqual((session["tenant"], session["state"]), (self.tenant, "open"))
        self.assertGreaterEqual(int(session["buffer_bytes"]), SIZE)
        communicator, = state["communicators"]
        self.assertEqual((communicator["state"], communicator["ranks"], communicator["leads"]), ("active", [1], False))
        self.assertEqual(communicator["hosts"], ["h0", "h1"])
        self.assertGreater(int(communicator["operations"]), 0)
        current = [lane for lane in communicator["lanes"] if lane["lanes"] == "current"]
        self.assertEqual({lane["direction"] for lane in current}, {"in", "out"})
        for lane in current:
            self.assertEqual((lane["state"], lane["host"]), ("up", "h0"))
            if lane["direction"] == "out":
                self.assertLessEqual(int(lane["acknowledged"]), int(lane["next"]))
        self.assertIn("\ncommunicators:\n", self.run_ok("dump", "h1", "-o", "yaml"))

    def test_dump_of_an_unknown_host_lists_known_hosts(self):
        result = self.mccsctl("dump", "h7")
        self.assertEqual((result.returncode, result.stderr),
                         (1, "mccsctl: unknown host 'h7'; registered hosts: h0, h1\n"))

    def test_drain_lists_users_and_lasts_until_undrain(self):
        state = lambda: [host["drain"] for host in json.loads(self.run_ok("get", "hosts", "-o", "json"))["hosts"]]  # noqa: E731
        output = self.run_ok("drain", "host", "h1", "--reason", "new memory")
        self.assertRegex(output, r"^host/h1 is draining\n\nCommunicators that use it:\n  [0-9a-f]{16}\n")
        self.addCleanup(self.mccsctl, "undrain", "host", "h1")
        self.assertEqual(state(), ["", "draining"])
        self.assertRegex(self.run_ok("get", "hosts"), r"\nh1 .* ready, draining\n")
        self.assertIn("new memory", self.run_ok("get", "drains"))
        self.assertRegex(self.run_ok("audit", "--limit", "1"), r" drain +\d+ +created Drain 'host.h1' +done")
        self.assertEqual(self.run_ok("undrain", "host", "h1"), "host/h1 is no longer drained\n")
        self.assertEqual(state(), ["", ""])
        again = self.mccsctl("undrain", "host", "h1")
        self.assertEqual((again.returncode, again.stderr), (1, "mccsctl: cannot undrain host h1: it is not drained; see mccsctl get drains\n"))
        self.assertIn("'h9'", self.mccsctl("drain", "host", "h9").stderr)
        self.assertIn("link 'l0'", self.mccsctl("drain", "link", "l0").stderr)
        self.assertEqual(self.mccsctl("drain", "rack", "r0").returncode, 2)

    def test_a_topology_that_contradicts_a_daemon_is_rejected_with_its_line(self):
        def topology(gpus):
            return ('{"apiVersion": "mccs/v1", "kind": "Topology", "metadata": {"name": "lab"}, "spec": {\n'
                    '"racks": [{"name": "r0"}], "switches": [{"name": "leaf0"}],\n'
                    '"hosts": [{"name": "h[0-1]", "rack": "r0",\n'
                    f'"gpus": {gpus}, "nics": [{{"name": "nic0", "switch": "leaf0", "capacity": "1Gbit/s"}}]}}]}}}}\n')
        with tempfile.TemporaryDirectory() as directory:
            file = os.path.join(directory, "lab.yaml")
            for gpus, status in (8, 1), (1, 0):
                with open(file, "w") as out:
                    out.write(topology(gpus))
                output = self.mccsctl("apply", "--dry-run", "-f", file)
                self.assertEqual(output.returncode, status, output.stderr)
                if status == 1:
                    self.assertRegex(output.stderr, r"lab\.yaml:4:9: Topology 'lab', spec\.hosts\[0\]\.gpus: host h0 has "
                                                  r"8 GPUs .* reports 1")

    def test_describe_shows_progress_of_hosts(self):
        listed = json.loads(self.run_ok("get", "communicators", "-o", "json"))["communicators"]
        words = ("describe", "communicator", listed[0]["id"])
        self.assertTrue(eventually(lambda: "Change:" not in self.run_ok(*words), timeout=30))
        self.assertTrue(re.search(r"Hosts\n  HOST  EPOCH  OPERATIONS  STATE\n  h0 +(\d+) +\d+  active\n"
                                  r"  h1 +\1 +\d+  active\n", self.run_ok(*words)), self.run_ok(*words))

    def communicator(self):
        listed = json.loads(self.run_ok("get", "communicators", "-o", "json"))["communicators"]
        return listed[0]["id"]

    def test_trace_shows_the_hops_of_both_hosts(self):
        identifier = self.communicator()
        words = ("trace", "communicator", identifier[:6], "--operations", "20")
        table = self.run_ok(*words)
        hops = ["ranks", "ready", "send", "arrive", "receive", "device", "done", "whole"]
        self.assertTrue(table.startswith(f"Communicator {identifier}\n\nh0: 20 operations, #"), table)
        self.assertIn("\nh1: 20 operations, #", table)
        self.assertEqual(re.findall(r"^  (\w+) +\d+ ns +\d+ ns +\d+ ns +\d+ ns +\d+ % ", table, re.MULTILINE), 2 * hops)
        # A slice of the other host may land before this one sends.
        orders = [["first_posted_ns", "all_posted_ns", "started_ns", "first_sent_ns", "done_ns"],
                  ["started_ns", "first_landed_ns", "last_landed_ns", "device_done_ns", "done_ns"]]
        for host in json.loads(self.run_ok(*words, "-o", "json"))["hosts"]:
            self.assertEqual((host["error"], len(host["operations"])), ("", 20))
            numbers = [int(operation["number"]) for operation in host["operations"]]
            self.assertEqual(numbers, list(range(numbers[0], numbers[0] + 20)))
            for operation in host["operations"]:
                self.assertEqual((operation["kind"], operation["bytes"]), ("all_reduce", str(SIZE)))
                for steps in orders:
                    times = [int(operation[step]) for step in steps]
                    self.assertEqual(times, sorted(times), operation)
                    self.assertGreater(times[0], 0)
        events = json.loads(self.run_ok(*words, "-o", "chrome"))["traceEvents"]
        self.assertEqual([event["args"]["name"][:2] for event in events if event["ph"] == "M"], ["h0", "h1"])
        self.assertEqual(sum(event["name"].endswith(" all_reduce of 256 KiB") for event in events), 40)

    def test_trace_rejects_what_it_cannot_trace(self):
        missing = self.mccsctl("trace", "communicator", "abcdefabcdef")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("no communicator id starts with", missing.stderr)
        for words in (("--operations", "0"), ("--operations", "1001"), ("-o", "xml")):
            self.assertEqual(self.mccsctl("trace", "communicator", "abcd", *words).returncode, 2, words)

    def test_trace_of_an_idle_communicator_ends_by_itself_or_by_ctrl_c(self):
        identifier = self.communicator()
        for host in "h0", "h1":
            for session in json.loads(self.run_ok("dump", host))["sessions"]:
                os.kill(session["process"], signal.SIGSTOP)
                self.addCleanup(os.kill, session["process"], signal.SIGCONT)
        # The operation in progress may still be traced.
        idle = self.mccsctl("trace", "communicator", identifier)
        self.assertRegex(idle.stdout + idle.stderr, r"traced [01] of 100 operations: timed out after 10 s")
        # Without mccs-lab exec, which would handle the interrupt itself.
        mccsctl = self.lab.mccsctl()
        again = lambda: call(*mccsctl, "--timeout", "0.5", "trace", "communicator", identifier).stderr  # noqa: E731
        first = None

        def runs():
            """Whether `first` runs and rejects others. Either of two traces may be the one that is rejected."""
            nonlocal first
            if first is None or first.poll() is not None:
                if first is not None:
                    first.communicate()
                first = subprocess.Popen([*mccsctl, "trace", "communicator", identifier], stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT, env=environment())
            return "is already running" in again() and first.poll() is None
        try:
            self.assertTrue(eventually(runs, timeout=60))
            first.send_signal(signal.SIGINT)
            output, _ = first.communicate(timeout=TIMEOUT_S)
        finally:
            first.kill()
            first.wait()
        self.assertEqual((first.returncode, output), (-signal.SIGINT, b""))
        self.assertTrue(eventually(lambda: "is already running" not in again(), timeout=5), "the daemons' traces end")


class WithoutADaemon(unittest.TestCase):
    def test_dump_reports_a_lost_or_stuck_host(self):
        with Lab(hosts=2, gpus=1, name="observe-lost") as lab:
            pids = {name: daemon["pid"] for name, daemon in lab.daemons().items()}
            mccsctl = lab.mccsctl()
            registered = lambda: call(*mccsctl, "get", "hosts").stdout.count("  ready\n")  # noqa: E731
            self.assertTrue(eventually(lambda: registered() == 2, timeout=60))
            os.kill(pids["h0"], signal.SIGKILL)
            # The connection of a stopped daemon stays open until its heartbeats time out.
            os.kill(pids["h1"], signal.SIGSTOP)
            try:
                stuck = call(*mccsctl, "dump", "h1")
                self.assertEqual(stuck.returncode, 1, stuck.stdout)
                self.assertRegex(stuck.stderr, "host h1 (is connected, but its daemon has not answered|was lost before)")
                lost = call(*mccsctl, "dump", "h0")
                self.assertEqual(lost.returncode, 1, lost.stdout)
                self.assertIn("host h0 is lost since", lost.stderr)
            finally:
                os.kill(pids["h1"], signal.SIGCONT)


class WithoutAController(unittest.TestCase):
    def test_top_reports_an_unreachable_controller(self):
        for words in (["--once"], []):
            result = subprocess.run([program("mccsctl"), "--controller", "127.0.0.1:9", "top", *words],
                                    capture_output=True, text=True, timeout=TIMEOUT_S, env=environment())
            self.assertEqual(result.returncode, 1, result.stdout)
            self.assertIn("cannot reach mccs-controller at 127.0.0.1:9", result.stderr)

    def test_wrong_intervals_are_wrong_usage(self):
        for interval in ("0", "-1", "soon", "1e9"):
            result = subprocess.run([program("mccsctl"), "top", "--interval", interval], capture_output=True, text=True,
                                    timeout=TIMEOUT_S, env=environment())
            self.assertEqual(result.returncode, 2, result.stderr)


if __name__ == "__main__":
    cases.main()
