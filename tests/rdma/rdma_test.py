#!/usr/bin/env python3
"""Tests on RDMA devices in virtual machines; scripts/rdma-test runs it. Prints a table of its parts."""
import argparse
import sys
import time

from rdma_vm import ROOT, Kernel, Machine, Unavailable

TESTS = ROOT / "build/bin/tests"
SKIPPED = 77


def contract(kernel):
    """The transport contract suite: both ends of the lanes on one device."""
    machine = Machine(kernel, "contract", "rdma_device_tests --gtest_brief=1", [TESTS / "rdma_device_tests"])
    machine.start()
    status = machine.wait(420, progress=lambda line: print(f"    {line}", flush=True))
    return status == 0, machine.log


PARTS = {"contract": contract}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=sorted(PARTS), nargs="+", help="only these parts")
    chosen = parser.parse_args().only or list(PARTS)
    try:
        kernel = Kernel()
        rows = []
        for name in chosen:
            print(f"rdma-test: {name}: {PARTS[name].__doc__}", flush=True)
            begun = time.monotonic()
            passed, log = PARTS[name](kernel)
            rows.append((name, passed, time.monotonic() - begun, log))
    except Unavailable as missing:
        print(f"rdma-test: SKIPPED: {missing}", flush=True)
        return SKIPPED
    for name, passed, seconds, log in rows:
        print(f"{name:<20} {'passed' if passed else 'FAILED':<8} {seconds:6.0f} s" + ("" if passed else f"  {log}"))
    failed = sum(not passed for _, passed, _, _ in rows)
    print(f"rdma-test: {len(rows) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
