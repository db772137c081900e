#!/usr/bin/env python3
"""Instructions of the daemons' turns per call in the deterministic simulator, and of an executor per slice, counted by
callgrind. A change that makes either path longer fails here, also on a busy machine on which no time would show it."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import cases  # noqa: E402

BIN = pathlib.Path(os.environ.get("MCCS_TEST_BIN", ROOT / "build/bin"))
CALLS = 200
# Limit of a change that needs no look: other compilers and C libraries differ by less.
TOLERANCE = 0.10
# Allowed factor of the instructions per call with many busy tenants over those with one.
TENANTS_TOLERANCE = 1.25
# By (hosts, ranks per host): instructions per all-reduce of 8 bytes, of all daemons. They include the turns in which a
# simulated daemon finds nothing to do, and the simulated network. Lower a bound whenever a change makes it too generous.
KEPT = {(1, 2): 16_750, (1, 8): 34_500, (2, 1): 78_400, (2, 2): 86_000}
# Likewise per exchange of messages of 8 bytes: each rank sends to and receives from a rank of the other host.
KEPT_MESSAGES = {(2, 1): 121_800, (2, 2): 149_800}
# Likewise of other collectives, with 8 bytes per block.
KEPT_OF_KIND = {kind: {(2, 8): instructions} for kind, instructions in
                (("all_gather", 160_300), ("reduce_scatter", 156_000), ("all_to_all", 303_800))}

# Instructions of one host's executor per slice, in a ring all-reduce of 64 bytes per block. The number of hosts must not
# matter.
KEPT_PER_SLICE = 1350
RING_HOSTS = (10, 100, 1000)
SAME = 0.02


def count(function, program, *arguments):
    """Instructions within `function` and what it calls, of one run; and what the program printed."""
    with tempfile.TemporaryDirectory() as directory:
        run = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={directory}/out", f"--toggle-collect={function}",
             BIN / program, *map(str, arguments)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    if run.returncode != 0:
        raise AssertionError(run.stdout + run.stderr)
    return int(re.search(r"Collected : (\d+)", run.stderr).group(1)), run.stdout


@unittest.skipIf(shutil.which("valgrind") is None, "valgrind is not installed: run scripts/setup")
class InstructionsPerSlice(unittest.TestCase):
    def count(self, operations, hosts):
        instructions, slices = count("mccs::Executor::Poll()", "slice_instructions", operations, "--hosts", hosts)
        return instructions, int(slices)

    def test_the_number_of_hosts_does_not_matter(self):
        found = []
        for hosts in RING_HOSTS:
            operations = max(2, 200 // hosts)
            (begin, slices_begin), (end, slices_end) = self.count(operations, hosts), self.count(2 * operations, hosts)
            found.append((end - begin) / (slices_end - slices_begin))
            print(f"ring of {hosts} hosts: {found[-1]:.0f} instructions per slice, kept: {KEPT_PER_SLICE}")
        self.assertGreater(min(found), 0, "callgrind counted nothing: was Executor::Poll renamed?")
        self.assertLessEqual(max(found), min(found) * (1 + SAME))
        self.assertLessEqual(max(found), KEPT_PER_SLICE * (1 + TOLERANCE))
        self.assertGreaterEqual(min(found), KEPT_PER_SLICE * (1 - TOLERANCE), "better: lower the kept value")


@unittest.skipIf(shutil.which("valgrind") is None, "valgrind is not installed: run scripts/setup")
class InstructionsPerCall(unittest.TestCase):
    def count(self, calls, hosts, ranks_per_host, *more):
        instructions, _ = count("mccs::Daemon::Poll(bool)", "call_instructions", calls, "--hosts", hosts,
                                "--ranks-per-host", ranks_per_host, *more)
        return instructions

    def check(self, hosts, ranks_per_host, kept=KEPT, *more):
        shape = hosts, ranks_per_host
        # The difference is without the start.
        per_call = (self.count(2 * CALLS, *shape, *more) - self.count(CALLS, *shape, *more)) / CALLS
        print(f"{hosts} hosts x {ranks_per_host} ranks {' '.join(more)}: {per_call:.0f} instructions per call, "
              f"kept: {kept[shape]}")
        self.assertGreater(per_call, 0, "callgrind counted no turn of a daemon: was Daemon::Poll renamed?")
        self.assertLessEqual(per_call, kept[shape] * (1 + TOLERANCE))
        self.assertGreaterEqual(per_call, kept[shape] * (1 - TOLERANCE), "better: lower the kept value")

    def per_call(self, tenants, communicators):
        """Instructions per call on each communicator of each tenant, on one host."""
        calls = 10
        load = 1, 2, "--tenants", tenants, "--communicators", communicators
        return (self.count(2 * calls, *load) - self.count(calls, *load)) / calls / tenants / communicators

    def test_a_call_costs_the_same_next_to_many_tenants(self):
        one = self.per_call(1, 8)
        many = self.per_call(32, 8)
        print(f"1 tenant x 8 communicators: {one:.0f} instructions per call, 32 tenants x 8: {many:.0f}")
        self.assertGreater(one, 0)
        self.assertLessEqual(many, one * TENANTS_TOLERANCE)

    def test_two_ranks_of_one_host(self):
        self.check(1, 2)

    def test_eight_ranks_of_one_host(self):
        self.check(1, 8)

    def test_two_hosts(self):
        self.check(2, 1)

    def test_two_hosts_of_two_ranks(self):
        self.check(2, 2)

    def test_messages_between_two_hosts(self):
        for shape in KEPT_MESSAGES:
            self.check(*shape, KEPT_MESSAGES, "--messages")

    def test_blocks_between_two_hosts_of_eight_ranks(self):
        for kind, kept in KEPT_OF_KIND.items():
            self.check(2, 8, kept, "--kind", kind)


if __name__ == "__main__":
    cases.main()
