#!/usr/bin/env python3
"""Runs PyTorch's own distributed tests from the wheel, with their ranks on different hosts of a lab.

Runs in PyTorch's environment, on a host of the lab (mccs-lab exec). The suite starts the ranks of each test as
processes; this program sets the variables of each rank's host first. Ranks are forked, not spawned: importing the
suite takes ten seconds, a test a second or two. A process that has used CUDA cannot be forked, so this one does not use
it and takes the number of GPUs from the lab's variables.

Prints one line per test and exits with status 0; the outcomes are in the results file, with the part of stderr, a
file, that each test wrote: [first byte, end]. If a test takes too long, its ranks' stacks are there.

MCCS_TEST_HOSTS contains the hosts' variables as JSON: [{name: value}, …]. Ranks are assigned to hosts in blocks.
"""
import argparse
import faulthandler
import json
import os
import sys
import time
import unittest

# The suite reads these when it is imported.
os.environ.setdefault("BACKEND", "nccl")
os.environ.setdefault("WORLD_SIZE", "2")
os.environ.setdefault("TEMP_DIR", "/tmp")

import torch  # noqa: E402

_count_gpus = torch._C._cuda_getDeviceCount
torch._C._cuda_getDeviceCount = lambda: int(os.environ["MCCS_EMULATED_GPUS"])
from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend  # noqa: E402

LINE_AT_MOST = 150
HOSTS = json.loads(os.environ.get("MCCS_TEST_HOSTS", "[]"))


class Suite(TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)

    @classmethod
    def _run(cls, *arguments, **options):
        torch._C._cuda_getDeviceCount = _count_gpus
        super()._run(*arguments, **options)

    def _start_processes(self, process):
        before = dict(os.environ)

        def on_its_host(**options):
            rank = options["args"][0]
            os.environ.update(HOSTS[rank * len(HOSTS) // int(self.world_size)])
            return process(**options)  # started before the next one is created

        try:
            super()._start_processes(on_its_host)
        finally:
            os.environ.clear()
            os.environ.update(before)


def summary_line(reason):
    """The most informative line of nested tracebacks."""
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    errors = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception"))]
    return (errors or lines or [""])[-1][:LINE_AT_MOST]


def log_end():
    return os.lseek(sys.stderr.fileno(), 0, os.SEEK_END)


class Table(unittest.TestResult):
    """Records the outcome of each test and prints it immediately."""

    def __init__(self):
        super().__init__()
        self.rows = []

    def startTest(self, test):
        super().startTest(test)
        self._outcome, self._started, self._log_begin = ("passed", ""), time.monotonic(), log_end()

    def stopTest(self, test):
        super().stopTest(test)
        outcome, reason = self._outcome
        seconds = time.monotonic() - self._started
        self.rows.append({"test": test._testMethodName, "outcome": outcome, "reason": reason,
                          "seconds": round(seconds, 1), "log": [self._log_begin, log_end()]})
        print(f"{outcome:8}{seconds:6.1f} s  {test._testMethodName}  {summary_line(reason)}", flush=True)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._outcome = "skipped", reason

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._outcome = "failed", self.failures[-1][1]

    def addError(self, test, err):
        super().addError(test, err)
        self._outcome = "failed", self.errors[-1][1]


def chosen(options):
    names = [name for name in unittest.TestLoader().getTestCaseNames(Suite) if name not in options.without]
    if options.tests:
        return [name for name in names if name in options.tests]
    return names[options.offset::options.every]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, default=1, help="run every N-th test")
    parser.add_argument("--offset", type=int, default=0, help="index of the first test to run")
    parser.add_argument("--tests", nargs="*", help="run only these tests")
    parser.add_argument("--without", nargs="*", default=[], help="do not run these tests")
    parser.add_argument("--results", required=True, help="output file for the outcomes, JSON")
    options = parser.parse_args()
    table = Table()
    Suite.setUpClass()
    for name in chosen(options):
        Suite(name).run(table)
        with open(options.results, "w", encoding="utf-8") as file:
            json.dump(table.rows, file, indent=1)


if __name__ == "__main__":
    faulthandler.enable()
    main()
