#!/usr/bin/env python3
"""Scrapes /metrics of mccsd and mccs-controller, as Prometheus does, while a program runs."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import unittest
import urllib.request

from lab_world import TIMEOUT_S, Lab, call, cases, environment, eventually, program

SAMPLE = re.compile(r'^(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
SIZE = 65536 * 4  # of steady_job's calls, in bytes


def scrape(endpoint):
    """{(name, ((label, value), …)): number}; fails on lines that Prometheus cannot parse."""
    with urllib.request.urlopen(f"http://{endpoint}/metrics", timeout=TIMEOUT_S) as answer:
        assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/plain"), answer.headers
        text = answer.read().decode()
    samples = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        sample = SAMPLE.match(line)
        assert sample, line
        key = (sample["name"], tuple(sorted(LABEL.findall(sample["labels"] or ""))))
        assert key not in samples, f"{line} twice"
        samples[key] = float(sample["value"])
    return samples


def find(samples, name, **labels):
    """The sum of all samples that have at least these labels."""
    return sum(value for (found, having), value in samples.items()
               if found == name and set(labels.items()) <= set(having))


class WhileAProgramRuns(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(hosts=2, gpus=1, name="metrics")
        cls.tenant = f"uid {os.getuid()}"

    @classmethod
    def tearDownClass(cls):
        cls.lab.down()

    def scrape(self, daemon):
        return scrape(self.lab.daemons()[daemon]["metrics"])

    def test_numbers_of_a_job_grow_while_it_runs_and_stay_when_it_has_ended(self):
        with self.lab.start(program("tests/steady_job"), "--seconds", 120) as job:
            self.assertTrue(job.has_printed("running", times=2), job.output + self.lab.logs())
            before = self.scrape("h0")
            operations = find(before, "mccs_operations_total", tenant=self.tenant, kind="all_reduce")
            self.assertGreater(operations, 0)
            self.assertEqual(find(before, "mccs_operation_bytes_total", kind="all_reduce") % SIZE, 0)
            self.assertEqual(find(before, "mccs_communicators", tenant=self.tenant, state="active"), 1)
            self.assertEqual(find(before, "mccs_sessions", tenant=self.tenant), 1)
            self.assertGreaterEqual(find(before, "mccs_buffer_bytes", tenant=self.tenant), SIZE)
            self.assertGreaterEqual(find(before, "mccs_strategy_epoch_highest", tenant=self.tenant), 1)
            self.assertEqual(find(before, "mccs_agent_connected"), 1)

            def grown():
                now = self.scrape("h0")
                return all(find(now, name, **labels) > find(before, name, **labels) for name, labels in (
                    ("mccs_operations_total", {"kind": "all_reduce"}),
                    ("mccs_lane_bytes_total", {"direction": "sent"}),
                    ("mccs_lane_bytes_total", {"direction": "received"}),
                    ("mccs_engine_turns_total", {}), ("mccs_engine_busy_turns_total", {}),
                    ("mccs_engine_awake_seconds_total", {})))
            self.assertTrue(eventually(grown, timeout=60))
        gone = lambda: find(self.scrape("h0"), "mccs_sessions", tenant=self.tenant) == 0  # noqa: E731
        self.assertTrue(eventually(gone, timeout=60))
        self.assertTrue(eventually(lambda: find(self.scrape("h0"), "mccs_engine_asleep") == 1, timeout=60))
        after = self.scrape("h0")
        self.assertEqual(find(after, "mccs_communicators", tenant=self.tenant), 0)
        self.assertEqual(find(after, "mccs_buffer_bytes", tenant=self.tenant), 0)
        self.assertGreater(find(after, "mccs_operations_total", tenant=self.tenant), operations)

    def test_the_controller_exports_hosts_and_decisions(self):
        before = self.scrape("controller")
        self.assertEqual(find(before, "mccs_controller_hosts", state="ready"), 2)
        with self.lab.start(program("tests/steady_job"), "--seconds", 120) as job:
            self.assertTrue(job.has_printed("running", times=2), job.output + self.lab.logs())

            def decided():
                now = self.scrape("controller")
                return find(now, "mccs_controller_communicators", tenant=self.tenant) == 1 \
                    and find(now, "mccs_controller_proposals_pending") == 0 \
                    and find(now, "mccs_controller_convergence_seconds_count") \
                    > find(before, "mccs_controller_convergence_seconds_count")
            self.assertTrue(eventually(decided, timeout=60), self.lab.logs())
            self.assertGreater(find(self.scrape("controller"), "mccs_controller_decisions_total",
                                    policy="locality_ring"), 0)

    def test_no_label_names_a_rank_or_a_communicator(self):
        for daemon in self.lab.daemons():
            for (name, labels) in self.scrape(daemon):
                # exposer_: metrics of prometheus-cpp itself.
                self.assertTrue(name.startswith(("mccs_", "exposer_")), name)
                self.assertFalse({"rank", "communicator", "comm_id"} & {label for label, _ in labels}, name)

    def test_lab_status_shows_the_endpoints(self):
        listed = json.loads(self.lab.command("status", "-o", "json").stdout)[0]["daemons"]
        table = self.lab.command("status").stdout
        for daemon in listed:
            self.assertRegex(daemon["metrics"], r"^127\.0\.0\.\d+:\d+$")
            self.assertIn(daemon["metrics"], table)


class AnAddressInUse(unittest.TestCase):
    def test_is_named_and_the_program_does_not_start(self):
        with socket.socket() as taken, tempfile.TemporaryDirectory() as directory:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            options = ["--listen", "127.0.0.1:0", "--state-dir", directory, "--metrics-listen", address]
            for command in (["mccsd", "--socket", f"{directory}/mccsd.sock"], ["mccs-controller"]):
                result = call(program(command[0]), *command[1:], *options, timeout=60)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn(f"cannot serve metrics on {address}", result.stderr)
                self.assertEqual(os.listdir(directory), [], "files are left")


class WithoutMetrics(unittest.TestCase):
    def test_metrics_are_off_by_default_and_stop_on_interrupt(self):
        for options, files in (([], {"endpoint", "pid"}),
                               (["--metrics-listen", "127.0.0.1:0"], {"endpoint", "metrics", "pid"})):
            with tempfile.TemporaryDirectory() as directory:
                controller = subprocess.Popen(
                    [program("mccs-controller"), "--listen", "127.0.0.1:0", "--state-dir", directory, *options],
                    stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment())
                try:
                    endpoint = pathlib.Path(directory) / "endpoint"
                    self.assertTrue(eventually(lambda: endpoint.exists() or controller.poll() is not None))
                    self.assertEqual(set(os.listdir(directory)), files)
                finally:
                    controller.send_signal(signal.SIGINT)
                    output = controller.communicate(timeout=TIMEOUT_S)[1]
                self.assertEqual(controller.returncode, 0, output)
                self.assertEqual(os.listdir(directory), [])


if __name__ == "__main__":
    cases.main()
