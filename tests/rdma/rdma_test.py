#!/usr/bin/env python3
"""Tests on RDMA devices in virtual machines; scripts/rdma-test runs it. Prints a table of its checks."""
import argparse
import pathlib
import sys
import time
from xml.etree import ElementTree

from rdma_lab import Lab
from rdma_pair import Pair
from rdma_service import Failed, Service
from rdma_vm import ROOT, RUNS, Kernel, Machine, Unavailable

TESTS = ROOT / "build/bin/tests"
SKIPPED = 77


class Summary:
    def __init__(self):
        self.rows = []
        self.skipped = {}  # why, by name

    def check(self, name, text, function):
        """Runs one check, which returns a text or raises Failed."""
        print(f"rdma-test: {name}: {text}", flush=True)
        begun = time.monotonic()
        try:
            passed, result = True, function()
        except (Failed, OSError, RuntimeError, LookupError, ValueError) as failure:
            passed, result = False, f"{type(failure).__name__}: {failure}"
            print(f"    FAILED: {result}", flush=True)
        self.rows.append((name, passed, time.monotonic() - begun, result.strip().splitlines()[-1:] or [""]))
        return passed

    def skip(self, name, why):
        print(f"rdma-test: {name}: SKIPPED: {why}", flush=True)
        self.skipped[name] = why

    # In the format of ctest, for scripts/count_results.
    def write(self, path):
        suite = ElementTree.Element("testsuite", name="rdma")
        for name, passed, seconds, result in self.rows:
            case = ElementTree.SubElement(suite, "testcase", name=f"rdma-test {name}", time=f"{seconds:.1f}",
                                          status="run" if passed else "fail")
            if not passed:
                ElementTree.SubElement(case, "failure", message=result[0])
        for name, why in self.skipped.items():
            case = ElementTree.SubElement(suite, "testcase", name=f"rdma-test {name}", status="notrun")
            ElementTree.SubElement(case, "skipped", message=why)
            case.set("status", "disabled")
        ElementTree.ElementTree(suite).write(path)

    def print(self):
        for name, passed, seconds, result in self.rows:
            print(f"{name:<16} {'passed' if passed else 'FAILED':<8} {seconds:6.0f} s  {result[0][:300]}")
        failed = sum(not passed for _, passed, _, _ in self.rows)
        print(f"rdma-test: {len(self.rows) - failed} passed, {failed} failed, {len(self.skipped)} skipped")
        return failed


def contract(kernel, summary):
    """The transport contract suite: both ends of the lanes on one device."""
    machine = Machine(kernel, "contract", "rdma_device_tests --gtest_brief=1", [TESTS / "rdma_device_tests"])

    def run():
        machine.start()
        status = machine.wait(420, progress=lambda line: print(f"    {line}", flush=True))
        if status != 0:
            raise Failed(f"exit status {status}: see {machine.log}")
        return next(line for line in reversed(machine.text().splitlines()) if "PASSED" in line)

    summary.check("contract", contract.__doc__, run)


def run_checks(summary, run):
    """Each continues where the one before has ended. Returns whether all hold."""
    holds = True
    for name in run.CHECKS:
        check = getattr(run, f"check_{name}")
        if holds:
            holds = summary.check(name, check.__doc__, check)
        else:
            summary.skip(name, "an earlier check failed")
    return holds


def service(kernel, summary):
    """Daemons and jobs on two machines."""
    with Pair(kernel) as pair:
        if run_checks(summary, Service(pair)):
            return
        for host, machine in enumerate(pair.machines):
            if machine.process.poll() is None:
                print(f"    mccsd's log on h{host + 1}:\n{pair.shells[host].run('tail -30 /tmp/mccsd.log', 20)[1]}")
        print(f"    logs: {RUNS}")


def lab(_kernel, summary):
    """mccs-lab up --network rdma-vms."""
    with Lab() as run:
        run_checks(summary, run)


PARTS = {"contract": contract, "service": service, "lab": lab}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=sorted(PARTS), nargs="+", help="only these parts")
    parser.add_argument("--report", type=pathlib.Path, help="file to write the results to, as ctest's junit")
    parser.add_argument("--unavailable", help=argparse.SUPPRESS)  # why QEMU cannot be had
    options = parser.parse_args()
    chosen = options.only or list(PARTS)
    summary = Summary()
    done = []
    try:
        if options.unavailable:
            raise Unavailable(options.unavailable)
        kernel = Kernel()
        for name in chosen:
            PARTS[name](kernel, summary)
            done.append(name)
    except Unavailable as missing:
        for name in chosen:
            if name not in done:
                summary.skip(name, str(missing))
    failed = summary.print()
    if options.report:
        summary.write(options.report)
    return 1 if failed else SKIPPED if summary.skipped else 0


if __name__ == "__main__":
    sys.exit(main())
