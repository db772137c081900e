#!/usr/bin/env python3
"""Daemons probe the paths of flows, on a network whose paths are known."""
import re
import unittest

from lab_world import cases, eventually
from scripted_lab import HOSTS, ScriptedLab

TCP, UDP = 6, 17
H1, H2 = "10.0.0.1", "10.0.1.1"
LEAF0, LEAF1, SPINES = "10.255.0.1", "10.255.0.2", ["10.255.0.3", "10.255.0.4"]


def flow(port, protocol=TCP, source=H1, switches=3):
    destination_port = 7400 if protocol == TCP else 4791
    return (f'flows {{ source: "{source}" destination: "{H2}" protocol: {protocol} source_port: {port} '
            f'destination_port: {destination_port} switches: {switches} }}')


def probe(question, *flows):
    return f"probe {{ request_id: {question} {' '.join(flows)} }}"


def over(spine):
    return {"hops": [LEAF0, SPINES[spine], LEAF1]}


class Probes(unittest.TestCase):
    def answer(self, lab, question, host="h1"):
        self.assertTrue(eventually(lambda: question in lab.answers(host)), lab.controller.output + lab.logs())
        return lab.answers(host)[question]

    def counter(self, lab, host, protocol, name):
        """A counter of the host's kernel."""
        names, values = re.findall(rf"^{protocol}: (.*)$", lab.exec(host, "cat", "/proc/net/snmp").stdout, re.MULTILINE)
        return int(dict(zip(names.split(), values.split()))[name])

    def test_probes_flows_of_both_protocols(self):
        # The testbed's rules: ports below 63000 over the first spine, the others over the second.
        ports = [(61000, 0), (62999, 0), (63000, 1), (64999, 1)]
        flows = [flow(port, protocol) for protocol in (TCP, UDP) for port, _ in ports]
        with ScriptedLab(probe(1, *flows)) as lab:
            self.assertEqual(self.answer(lab, 1), 2 * [over(spine) for _, spine in ports])
            # The other hosts do not have the address.
            for host in HOSTS[1:]:
                for found in self.answer(lab, 1, host):
                    self.assertEqual(found, {"error": f"{H1} is not an address of this host"})

    def test_the_peer_drops_probes_that_reach_it(self):
        # The request assumes a longer path than there is.
        with ScriptedLab(probe(1, flow(61000, switches=6), flow(61000, UDP, switches=6))) as lab:
            for found in self.answer(lab, 1):
                self.assertEqual(found["hops"][:3], over(0)["hops"])
                self.assertEqual(found["hops"][3:], ["", "", ""])
            self.assertGreater(self.counter(lab, "h2", "Tcp", "InCsumErrors"), 0)
            self.assertGreater(self.counter(lab, "h2", "Udp", "InCsumErrors"), 0)
            self.assertEqual(self.counter(lab, "h2", "Tcp", "PassiveOpens"), 0)

    def test_probes_ports_of_active_lanes(self):
        rings = "channels { ring: [0, 1, 2, 3] source_ports: [61000, 61001, 61002, 61003] }"
        strategy = f'propose {{ strategy {{ epoch: 2 {rings} lanes {{ slots: 12 slot_bytes: 98304 }} skew: 6 }} }}'
        # From h5, the second host in the ring, to h2.
        question = probe(1, flow(61001, source="10.0.0.3"))
        with ScriptedLab(strategy, question) as lab, lab.job("1M", 10_000) as job:
            self.assertTrue(eventually(lambda: all(lab.reports().values())), lab.controller.output)
            lanes = [lane for report in lab.reports()["h5"] for lane in report.get("lanes", [])]
            self.assertIn("10.0.0.3:61001", [lane["local"] for lane in lanes])
            lab.order(strategy, question, probe(2, flow(61001, source="10.0.0.3")))
            self.assertEqual(self.answer(lab, 2, "h5"), [over(0)])
            self.assertFalse(job.has_ended(), job.output)
            for report in lab.reports()["h5"]:
                for lane in report.get("lanes", []):
                    self.assertEqual(int(lane.get("reconnects", 0)), 0, lane)

    def test_retries_rate_limited_switches(self):
        with ScriptedLab() as lab:
            for switch in ("leaf0", "spine0", "leaf1"):
                # Limit "time exceeded" only: a few at once, then one per 100 ms and host.
                limited = lab.exec(switch, "sysctl", "-qw", "net.ipv4.icmp_ratelimit=100", "net.ipv4.icmp_ratemask=2048")
                self.assertEqual(limited.returncode, 0, limited.stderr)
            lab.order(probe(1, *[flow(61000 + i) for i in range(3)]))
            self.assertEqual(self.answer(lab, 1), 3 * [over(0)])

    def test_reports_that_no_switch_replies(self):
        with ScriptedLab() as lab:
            down = lab.command("link", "down", "h1/nic0", "leaf0")
            self.assertEqual(down.returncode, 0, down.stderr)
            lab.order(probe(1, flow(61000)))
            found, = self.answer(lab, 1)
            self.assertRegex(found["error"], "cannot be sent|no switch on the path to")

    def test_rejects_an_invalid_probe_request(self):
        with ScriptedLab(probe(1, flow(61000), flow(61001, protocol=1))) as lab:
            for found in self.answer(lab, 1):
                self.assertEqual(found, {"error": "invalid flow: protocol 1: expected TCP or UDP"})


if __name__ == "__main__":
    cases.main()
