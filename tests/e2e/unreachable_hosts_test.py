#!/usr/bin/env python3
"""Two hosts that do not reach each other: found by the daemons, shown, avoided by jobs, and forgotten when repaired."""
import json
import time
import unittest

from lab_world import ROOT, Lab, cases, eventually, foreign_environment, program

TESTBED = ROOT / "tests/testbeds/mccs.yaml"
HOSTS = ("h3", "h1", "h2", "h5")  # the rendezvous is on the first one
# A job that fails at once takes its start and end; one that waits for the network takes over 5 s in addition. Its other
# ranks end with the first one that fails.
AT_ONCE_S = 5


class UnreachableHosts(unittest.TestCase):
    def mccsctl(self, *words):
        result = self.lab.exec("controller", program("mccsctl"), *words)
        self.assertEqual(result.returncode, 0, f"{words}: {result.stdout}{result.stderr}")
        return result.stdout

    def hosts(self):
        return {status["host"]["name"]: status
                for status in json.loads(self.mccsctl("get", "hosts", "-o", "json"))["hosts"]}

    def unreachable(self):
        return {name: [peer["host"] for peer in status.get("unreachable", [])]
                for name, status in self.hosts().items() if status.get("unreachable")}

    def rules(self, action, addresses):
        """Packets from h1 to these addresses have no route, or have one again."""
        for address in addresses:
            result = self.lab.exec("h1", "ip", "rule", action, "pref", "1", "to", f"{address}/32", "unreachable",
                                   env=foreign_environment())
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def job(self, *hosts):
        return self.lab.start(program("tests/steady_job"), "--seconds", 600,
                              options=("--hosts", ",".join(hosts), "--ranks-per-host", 1, "--grace", 0))

    def failure(self, *hosts):
        """Runs a job that must fail; returns its output and the time that it took."""
        began = time.monotonic()
        with self.job(*hosts) as job:
            self.assertNotEqual(job.wait(), 0, job.output)
            return job.output, time.monotonic() - began

    def assert_runs(self, *hosts):
        with self.job(*hosts) as job:
            self.assertTrue(job.has_printed("running", times=len(hosts)), job.output + self.lab.logs())

    def test_a_cut_pair_is_found_avoided_and_forgotten(self):
        with Lab(name="pairs", topology=TESTBED) as self.lab:
            # Not those by which the program itself exchanges the unique id.
            addresses = [address for nic in self.hosts()["h2"]["host"]["nics"] for address in nic["addresses"]
                         if not address.startswith("172.31.")]
            self.assert_runs(*HOSTS)
            self.assertEqual(self.unreachable(), {})
            self.rules("add", addresses)
            self.failure("h1", "h2")
            self.assertTrue(eventually(lambda: self.unreachable() == {"h1": ["h2"], "h2": ["h1"]}),
                            self.mccsctl("get", "hosts") + self.lab.logs())
            self.assertRegex(self.mccsctl("get", "hosts"), r"Note: hosts h1 and h2, for .*: .* cannot connect to ")
            self.assertIn("quarantine-pair", self.mccsctl("audit"))
            output, took_s = self.failure("h1", "h2")
            self.assertRegex(output, r"hosts h1 and h2: .* cannot connect to .*; unreachable for ")
            self.assertLess(took_s, AT_ONCE_S, output)
            self.assert_runs(*HOSTS)
            self.assert_runs("h1", "h3")
            self.rules("del", addresses)
            self.assertTrue(eventually(lambda: self.unreachable() == {}), self.mccsctl("get", "hosts"))
            self.assert_runs("h1", "h2")


if __name__ == "__main__":
    cases.main()
