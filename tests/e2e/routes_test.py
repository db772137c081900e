#!/usr/bin/env python3
"""Flows use the NICs, ports and rates of the controller, measured by counters of a network of namespaces."""
import time
import unittest

from lab_world import cases, eventually, program
from scripted_lab import HOSTS, ScriptedLab

# Addresses of each host's NICs.
NICS = {"h1": ["10.0.0.1", "10.0.0.2"], "h5": ["10.0.0.3", "10.0.0.4"],
        "h2": ["10.0.1.1", "10.0.1.2"], "h3": ["10.0.1.3", "10.0.1.4"]}


def strategy(channels, epoch=2):
    """A ToAgent message: rings in the hosts' order, with additional fields for each channel."""
    rings = "\n".join(f"channels {{ ring: [0, 1, 2, 3] {more} }}" for more in channels)
    return f"""propose {{ strategy {{ epoch: {epoch} {rings} lanes {{ slots: 12 slot_bytes: 98304 }} skew: 6
               origin: "the test" }} }}"""


def addresses(nic):
    return " ".join(f'addresses: "{NICS[host][nic]}"' for host in HOSTS)


class Nics(unittest.TestCase):
    def test_two_channels_use_both_nics_of_every_host(self):
        with ScriptedLab(strategy([addresses(0), addresses(1)])) as lab:
            before = lab.links()
            with lab.job("4M", 2) as job:
                self.assertEqual(job.wait(), 0, job.output + lab.logs())
            after = lab.links()
            moved = {nic: after[nic]["bytes"] - before[nic]["bytes"] for nic in after}
            # Two all-reduces (and one that checks) over four hosts: each lane carries 1.5 times the data of its
            # channel, which is half of the data.
            for nic, count in moved.items():
                self.assertGreater(count, 2 * 1.5 * 4e6 / 2, moved)
            self.assertLess(max(moved.values()), 1.2 * min(moved.values()), moved)
            for host, reports in lab.reports().items():
                lanes = [lane for report in reports for lane in report.get("lanes", []) if lane["state"] == "up"]
                self.assertEqual({lane.get("channel", 0) for lane in lanes}, {0, 1})
                for lane in lanes:
                    nic = lane.get("channel", 0)
                    self.assertEqual(lane["local"].split(":")[0], NICS[host][nic])
                    self.assertEqual(lane["remote"].split(":")[0], NICS[HOSTS[lane.get("to", 0)]][nic])

    def test_a_foreign_address_is_reported_and_changes_nothing(self):
        foreign = addresses(1).replace("10.0.1.2", "10.9.9.9")
        with ScriptedLab(strategy([addresses(0)]), strategy([foreign], epoch=3)) as lab:
            with lab.job("64k", 20) as job:
                self.assertEqual(job.wait(), 0, job.output + lab.logs())
            logs = lab.command("logs", "h1").stdout
            self.assertIn("source address 10.9.9.9 is not an address of this host", logs)


class Rates(unittest.TestCase):
    def test_a_cap_holds_on_the_wire(self):
        rate = 20e6
        lanes = " ".join(f"lanes {{ from: {i} to: {(i + 1) % 4} rate_bps: {int(rate)} }}" for i in range(4))
        with ScriptedLab(strategy([addresses(0)]), f"rate_limits {{ revision: 1 {lanes} }}") as lab:
            with lab.job("8M", 10_000) as job:
                def waited(reports):
                    return any(int(lane.get("waitedForRateNs", 0)) > 1e9
                               for report in reports for lane in report.get("lanes", []))
                self.assertTrue(eventually(lambda: all(map(waited, lab.reports().values()))),
                                lab.controller.output)
                # The measured time includes both reads of the counters, so the computed rate is a lower bound.
                begin = time.monotonic()
                before = lab.links()
                time.sleep(3)
                after = lab.links()
                seconds = time.monotonic() - begin
                for host in HOSTS:
                    bits = 8 * (after[f"{host}/nic0"]["bytes"] - before[f"{host}/nic0"]["bytes"])
                    # Allow 3 % of the rate, and 2 % for headers of packets and slices and for acknowledgements.
                    self.assertLess(bits / seconds, 1.05 * rate, host)
                    self.assertGreater(bits, 0, host)
                self.assertFalse(job.has_ended(), job.output)


if __name__ == "__main__":
    cases.main()
