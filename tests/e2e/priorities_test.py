#!/usr/bin/env python3
"""Priority of a tenant in the network: packets have a DSCP class, and switches send higher classes first."""
import collections
import json
import re
import unittest

from lab_world import ROOT, Lab, cases, eventually, program

POLICY = """\
apiVersion: mccs/v1
kind: Policy
metadata: {name: fair}
spec: {type: fair_flow}
"""
TENANT = """\
---
apiVersion: mccs/v1
kind: Tenant
metadata: {name: a}
spec: {selector: {sockets: [a]}, priority: %d}
"""
# Bytes that are sent between two samples of the queues.
MOVED = 6_000_000


class Priorities(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(name="priorities", topology=ROOT / "tests/testbeds/mccs.yaml")
        cls.addClassCleanup(cls.lab.down)
        cls.uplinks = [link["ifname"] for link in json.loads(cls.leaf("ip", "-j", "link"))
                       if link.get("ifalias", "").startswith("to spine")]

    @classmethod
    def leaf(cls, *words):
        output = cls.lab.exec("leaf1", *words)
        assert output.returncode == 0, output.stderr
        return output.stdout

    def apply(self, text):
        file = self.lab.directory / "objects.yaml"
        file.write_text(text)
        output = self.lab.exec("controller", program("mccsctl"), "apply", "-f", file)
        self.assertEqual(output.returncode, 0, output.stderr)

    def job(self, tenant, *hosts):
        return self.lab.start(program("collective_perf"), "--op", "all_reduce", "--min", "2M", "--max", "2M", "--iters",
                              100_000, options=("--hosts", ",".join(hosts), "--tenant", tenant))

    def queued(self):
        """Bytes sent to the spines, by class."""
        of_class = collections.Counter()
        for device in self.uplinks:
            shown = self.leaf("tc", "-s", "class", "show", "dev", device)
            for name, sent in re.findall(r"^class htb (\S+) .*\n Sent (\d+) bytes", shown, re.MULTILINE):
                of_class[name] += int(sent)
        # 1:10: packets without DSCP; 1:15: packets of priority 5.
        return {"none": of_class["1:10"], "fifth": of_class["1:15"]}

    def grown(self, which):
        """Growth of each class until `which` has grown by MOVED."""
        before = self.queued()
        growth = {}

        def enough():
            growth.update({name: bytes_now - before[name] for name, bytes_now in self.queued().items()})
            return growth[which] > MOVED
        self.assertTrue(eventually(enough), f"{growth}\n{self.lab.logs()}")
        return growth

    def test_the_higher_one_goes_first(self):
        self.apply(POLICY + TENANT % 5)
        # Both have flows on both spines.
        with self.job("a", "h2", "h1") as favoured, self.job("b", "h3", "h5") as other:
            self.grown("none")
            # Packets without DSCP are still queued at first; on a busy machine the favoured job may also pause.
            samples = []

            def goes_first():
                samples.append(self.grown("fifth"))
                return samples[-1]["fifth"] > 4 * samples[-1]["none"]
            self.assertTrue(eventually(goes_first), samples)
            # Removing the priority takes effect while the jobs run.
            self.apply(TENANT % 0)
            self.assertTrue(eventually(lambda: self.grown("none")["fifth"] == 0))
            self.assertFalse(favoured.has_ended() or other.has_ended(), favoured.output + other.output)


if __name__ == "__main__":
    cases.main()
