#!/usr/bin/env python3
"""The ends of certificates: in `mccsctl get hosts` and in the metrics, also after a renewal without a restart."""
import json
import time
import unittest
import urllib.request

from lab_world import TIMEOUT_S, Lab, call, cases, eventually, program

DAY_S = 86400


class Ends(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(hosts=2, gpus=1, name="ends")

    @classmethod
    def tearDownClass(cls):
        cls.lab.down()

    def issue(self, days, *holder):
        made = call(program("mccs-controller"), "issue-certificate", self.lab.directory / "certificates", *holder,
                    "--days", days)
        self.assertEqual(made.returncode, 0, made.stderr)

    def hosts(self):
        return json.loads(call(*self.lab.mccsctl(), "get", "hosts", "-o", "json").stdout)

    def metric(self, daemon):
        with urllib.request.urlopen(f"http://{self.lab.daemons()[daemon]['metrics']}/metrics",
                                    timeout=TIMEOUT_S) as answer:
            line, = (line for line in answer.read().decode().splitlines()
                     if line.startswith("mccs_certificate_end_timestamp_seconds "))
        return float(line.split()[1])

    def test_a_certificate_that_ends_soon_is_shown_until_it_is_renewed(self):
        self.assertTrue(eventually(lambda: int(self.hosts()["hosts"][1]["certificate_end_s"]) > 0, timeout=30))
        self.assertNotIn("certificate", call(*self.lab.mccsctl(), "get", "hosts").stdout)

        self.issue(9, "--host", "h1")
        self.assertTrue(eventually(lambda: self.hosts()["hosts"][1]["certificate_problem"], timeout=30),
                        self.lab.logs())
        text = call(*self.lab.mccsctl(), "get", "hosts").stdout
        self.assertRegex(text, r"h1 .* ready, certificate ends in 8 d 23 h\n")
        self.assertIn("Note: host h1: certificate ends in 8 d 23 h; renew it: "
                      "mccs-controller issue-certificate PKI --host h1\n", text)
        self.assertNotIn("Note: host h0", text)

        self.issue(90, "--host", "h1")
        self.assertTrue(eventually(lambda: not self.hosts()["hosts"][1]["certificate_problem"], timeout=30))
        self.assertEqual({host["state"] for host in self.hosts()["hosts"]}, {"ready"})

    def test_so_is_the_controllers(self):
        self.issue(3, "--controller")
        self.assertTrue(eventually(lambda: self.hosts()["certificate_problem"], timeout=30), self.lab.logs())
        self.assertIn("Note: the controller's certificate ends in 2 d 23 h; renew it: ",
                      call(*self.lab.mccsctl(), "get", "hosts").stdout)
        self.issue(90, "--controller")
        self.assertTrue(eventually(lambda: not self.hosts()["certificate_problem"], timeout=30))

    def test_metrics_follow_a_renewal(self):
        for daemon, holder in (("h0", ("--host", "h0")), ("controller", ("--controller",))):
            self.issue(40, *holder)
            self.assertTrue(eventually(lambda: abs(self.metric(daemon) - time.time() - 40 * DAY_S) < 120, timeout=30),
                            f"{daemon}: {self.metric(daemon)}")


if __name__ == "__main__":
    cases.main()
