#!/usr/bin/env python3
"""Instructions of the daemons' turns per call, counted by callgrind in the deterministic simulator. A change that makes
the path of a call longer fails here, also on a busy machine on which no time would show it."""
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
# By (hosts, ranks per host): instructions per all-reduce of 8 bytes, of all daemons. They include the turns in which a
# simulated daemon finds nothing to do, and the simulated network. Lower a bound whenever a change makes it too generous.
KEPT = {(1, 2): 15_900, (1, 8): 37_850, (2, 1): 70_750, (2, 2): 82_150}


@unittest.skipIf(shutil.which("valgrind") is None, "valgrind is not installed: run scripts/setup")
class InstructionsPerCall(unittest.TestCase):
    def count(self, calls, hosts, ranks_per_host):
        with tempfile.TemporaryDirectory() as directory:
            run = subprocess.run(
                ["valgrind", "--tool=callgrind", f"--callgrind-out-file={directory}/out",
                 "--toggle-collect=mccs::Daemon::Poll(bool)", BIN / "call_instructions", str(calls), "--hosts",
                 str(hosts), "--ranks-per-host", str(ranks_per_host)],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return int(re.search(r"Collected : (\d+)", run.stderr).group(1))

    def check(self, hosts, ranks_per_host):
        shape = hosts, ranks_per_host
        # The difference is without the start.
        per_call = (self.count(2 * CALLS, *shape) - self.count(CALLS, *shape)) / CALLS
        print(f"{hosts} hosts x {ranks_per_host} ranks: {per_call:.0f} instructions per call, kept: {KEPT[shape]}")
        self.assertGreater(per_call, 0, "callgrind counted no turn of a daemon: was Daemon::Poll renamed?")
        self.assertLessEqual(per_call, KEPT[shape] * (1 + TOLERANCE))
        self.assertGreaterEqual(per_call, KEPT[shape] * (1 - TOLERANCE), "better: lower the kept value")

    def test_two_ranks_of_one_host(self):
        self.check(1, 2)

    def test_eight_ranks_of_one_host(self):
        self.check(1, 8)

    def test_two_hosts(self):
        self.check(2, 1)

    def test_two_hosts_of_two_ranks(self):
        self.check(2, 2)


if __name__ == "__main__":
    cases.main()
