#!/usr/bin/env python3
"""Flows take the paths that the controller reports, by the switches' counters, for each kind of source port mapping."""
import contextlib
import json
import pathlib
import re
import tempfile
import unittest

from lab_world import ROOT, Lab, cases, eventually, program

TESTBED = (ROOT / "tests/testbeds/mccs.yaml").read_text()
FABRIC = {f"leaf{leaf}-spine{spine}" for leaf in (0, 1) for spine in (0, 1)}
POLICY = """\
---
apiVersion: mccs/v1
kind: Policy
metadata:
  name: paths
spec:
  type: fair_flow
"""
HASH = """\
    mapping: hash
    hash: {name: linux-multipath, seed: 7,
           fields: [source_address, destination_address, protocol, source_port, destination_port]}
"""
PROBE = """\
    mapping: probe
    candidates: 61000-64999
"""
# Bytes that a job sends in one direction between two reads of the counters; upper bound of other traffic on a link.
MOVED, SMALL = 4_000_000, 400_000


def testbed(source_ports=None):
    if source_ports is None:
        return TESTBED
    return TESTBED[:TESTBED.index("  source_ports:")] + "  source_ports:\n" + source_ports


class PathsLab(Lab):
    def __init__(self, text):
        self.temporary_directory = tempfile.TemporaryDirectory()
        self.file = pathlib.Path(self.temporary_directory.name) / "topology.yaml"
        self.file.write_text(text)
        config = self.file.with_name("mccsd.yaml")
        config.write_text("lanes: {channels: 1}\n")  # one flow per pair of hosts
        super().__init__(name="paths", topology=self.file, mccsd_config=config)
        try:
            self.apply(text + POLICY)
        except BaseException:
            self.down()
            raise

    def down(self):
        self.temporary_directory.cleanup()
        return super().down()

    def mccsctl(self, *words):
        result = self.exec("controller", program("mccsctl"), *words)
        assert result.returncode == 0, f"{words}: {result.stdout}{result.stderr}"
        return result.stdout

    def apply(self, text):
        self.file.write_text(text)
        return self.mccsctl("apply", "-f", self.file)

    def job(self, *hosts):
        """Starts a job with one rank on each host; it uses the first NICs."""
        return self.start(program("tests/steady_job"), "--seconds", 3600,
                          options=("--hosts", ",".join(hosts), "--ranks-per-host", 1))

    def flows(self):
        """The flows of each job's ring as `explain` shows them, by the job's id, oldest first."""
        listed = json.loads(self.mccsctl("get", "communicators", "-o", "json")).get("communicators", [])
        return {job["id"]: self.flows_of(job["id"]) for job in listed}

    def flows_of(self, job):
        explained = self.exec("controller", program("mccsctl"), "explain", "communicator", job, "--interval", "0.1",
                              "-o", "json")
        if explained.returncode != 0:  # the job has ended
            return []
        return [flow for flow in json.loads(explained.stdout).get("flows", []) if flow.get("in_ring")]

    def reported_paths(self):
        """The paths of each job's flows, as lists of switches. Empty: the path of a flow is not known."""
        return [paths_of(flows) for flows in self.flows().values()]

    def moved(self):
        """Bytes of each direction between switches since the lab's start, by (from, to)."""
        shown = self.command("links", "-o", "json")
        assert shown.returncode == 0, shown.stderr
        return {(line["from"], line["to"]): line["bytes"] for line in json.loads(shown.stdout)
                if line["link"] in FABRIC}

    def grown(self):
        """Growth of each direction until one has grown by MOVED."""
        before = self.moved()
        growth = {}

        def enough():
            now = self.moved()
            growth.update({ends: now[ends] - before[ends] for ends in now})
            return max(growth.values()) > MOVED
        assert eventually(enough), growth
        return growth


def paths_of(flows):
    ways = []
    for flow in flows:
        links = [link.split("-") for link in flow.get("links", [])]
        if not links:
            return []
        way = [links[0][1]]  # the NIC's switch
        for ends in links[1:-1]:
            way.append(ends[1 - ends.index(way[-1])])
        ways.append(way)
    return ways


def directions(ways):
    """(from, to) of all links on the paths."""
    return {ends for way in ways for ends in zip(way, way[1:])}


def users(output):
    """Communicators that `mccsctl drain` names."""
    return set(re.findall(r"^  ([0-9a-f]{16})$", output, re.MULTILINE))


class Paths(unittest.TestCase):
    def expect_running(self, lab, *jobs):
        for job in jobs:
            self.assertTrue(job.has_printed("running", times=2), job.output + lab.logs())

    def expect_all_used(self, lab):
        """Two jobs between two racks, each with one flow per direction, over two spines: every direction of every link
        carries one flow."""
        self.assertTrue(eventually(lambda: min(lab.grown().values()) > SMALL), f"{lab.reported_paths()} {lab.logs()}")

    def expect_reported_paths_used(self, lab):
        with lab.job("h1", "h2") as first:
            self.expect_running(lab, first)
            with lab.job("h5", "h3") as second:
                self.expect_running(lab, second)
                self.expect_all_used(lab)
            self.expect_flows_on_reported_paths(lab)

    def expect_flows_on_reported_paths(self, lab):
        """For one job: its flows use the reported paths and no other links."""
        seen = {}

        def paths_are_stable():
            seen["before"], seen["growth"], seen["after"] = lab.reported_paths(), lab.grown(), lab.reported_paths()
            return len(seen["before"]) == 1 and seen["before"][0] and seen["before"] == seen["after"]
        self.assertTrue(eventually(paths_are_stable), f"{seen} {lab.logs()}")
        ways, = seen["before"]
        self.assertEqual(sorted((way[0], way[-1]) for way in ways), [("leaf0", "leaf1"), ("leaf1", "leaf0")])
        self.assertEqual({ends for ends, count in seen["growth"].items() if count > SMALL}, directions(ways), seen)

    def test_by_rules_of_source_ports(self):
        with PathsLab(testbed()) as lab:
            self.expect_reported_paths_used(lab)

    def test_by_a_hash_that_is_known(self):
        with PathsLab(testbed(HASH)) as lab:
            self.expect_reported_paths_used(lab)

    def test_by_probing(self):
        with PathsLab(testbed(PROBE)) as lab:
            self.expect_reported_paths_used(lab)

    def test_flows_that_run_leave_a_drained_link_and_use_it_again_after_undrain(self):
        with PathsLab(testbed()) as lab, lab.job("h1", "h2") as first, lab.job("h5", "h3") as second:
            self.expect_running(lab, first, second)
            self.expect_all_used(lab)
            over_link = {job for job, flows in lab.flows().items() if any("leaf0-spine1" in f["links"] for f in flows)}
            self.assertEqual(users(lab.mccsctl("drain", "link", "leaf0-spine1")), over_link)

            def left():
                growth = lab.grown()
                # Links that are useless without the drained one are idle as well.
                return all((count < SMALL) == ("spine1" in ends) for ends, count in growth.items())
            self.assertTrue(eventually(left), f"{lab.reported_paths()} {lab.logs()}")
            self.assertEqual(users(lab.mccsctl("drain", "link", "leaf1-spine1")), set())

            of_host = {job for job, flows in lab.flows().items() if any(f["from"] == "h5" for f in flows)}
            self.assertEqual(len(of_host), 1)
            self.assertEqual(users(lab.mccsctl("drain", "host", "h5")), of_host)
            for what, name in (("host", "h5"), ("link", "leaf1-spine1"), ("link", "leaf0-spine1")):
                lab.mccsctl("undrain", what, name)
            self.expect_all_used(lab)
            self.assertFalse(first.has_ended() or second.has_ended(), first.output + second.output)

    def test_flows_are_probed_again_after_a_change_of_the_topology(self):
        text = testbed(PROBE)
        with PathsLab(text) as lab, contextlib.ExitStack() as jobs:
            for hosts in (("h1", "h2"), ("h5", "h3")):
                self.expect_running(lab, jobs.enter_context(lab.job(*hosts)))

            def meet():
                return min(lab.grown().values()) < SMALL
            self.assertTrue(eventually(lambda: not meet()), f"{lab.reported_paths()} {lab.logs()}")
            # Until the leaves' new hashes put two flows on one link.
            for seed in range(1, 40):
                for leaf in ("leaf0", "leaf1"):
                    lab.exec(leaf, "sysctl", "-qw", f"net.ipv4.fib_multipath_hash_seed={seed}")
                if meet():
                    break
            else:
                self.fail("no seed puts two flows on one link")
            lab.apply(text.replace('["10.255.0.[1-4]"]', '["10.255.0.[1-4]", "10.254.0.[1-4]"]') + POLICY)
            self.assertTrue(eventually(lambda: not meet()), f"{lab.reported_paths()} {lab.logs()}")


if __name__ == "__main__":
    cases.main()
