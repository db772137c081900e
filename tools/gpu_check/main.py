#!/usr/bin/env python3
"""Proves MCCS on one GPU, or shows what fails, in at most nine minutes; scripts/gpu-check runs it."""
import argparse
import os
import pathlib
import shutil
import signal
import sys
import tempfile

import report
from check import Check
from environment import Environment
from package import BadPackage, Package, unpack
from parts import PARTS, run_part
from processes import Processes
from results import Budget
from service import Service

LIMIT_S = 530
USAGE_ERROR, INTERRUPTED = 2, 130
HERE = pathlib.Path(__file__).resolve().parent
# Of this program in an installed package: share/gpu_check.
INSTALLED = HERE.parents[1]


def say(text):
    print(text, flush=True)


def default_package():
    """The package that this program is part of, else the newest archive in dist/."""
    if (INSTALLED / "VERSION").exists():
        return INSTALLED
    archives = sorted(pathlib.Path("dist").glob("mccs-*.tar.zst"), key=lambda path: path.stat().st_mtime)
    return archives[-1] if archives else None


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="gpu-check", description="Runs MCCS on one GPU: what it assumes about CUDA, its service, the conformance "
        "suite, performance beside the real NCCL and a copy kernel, PyTorch, graphs, failures, and the kernels under "
        "compute-sanitizer. Prints a table and writes gpu-check.json and a log of each program.",
        epilog="Exit status: 0 no part failed; 1 a part failed; 2 usage; 130 interrupted. parts: " +
        "; ".join(f"{part.name} ({part.limit_s} s): {part.purpose}" for part in PARTS))
    parser.add_argument("package", nargs="?", type=pathlib.Path, metavar="DIST",
                        help="dist/mccs-*.tar.zst, its unpacked directory, or a build tree; default: the package of "
                        "this program, or the newest one in dist/")
    parser.add_argument("--emulated", action="store_true", help="on emulated GPUs, without a GPU")
    parser.add_argument("--only", nargs="+", choices=[part.name for part in PARTS], metavar="PART",
                        help="only these parts")
    parser.add_argument("--limit", type=float, default=LIMIT_S, metavar="SECONDS",
                        help=f"time of all parts; those that do not fit are skipped (default {LIMIT_S})")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIRECTORY",
                        help="directory of the results (default: $OUT, else ./gpu-check-results)")
    parser.add_argument("--python", metavar="FILE",
                        help="an interpreter with PyTorch (default: this one, or the first of PATH that has it)")
    options = parser.parse_args(arguments)
    options.package = options.package or default_package()
    if options.package is None:
        parser.error("no DIST, and no package in dist/")
    if not options.package.exists():
        parser.error(f"DIST {options.package} does not exist")
    options.out = (options.out or pathlib.Path(os.environ.get("OUT") or "gpu-check-results")).resolve()
    return options


class Run:
    """One run of all parts. `directory`: temporary, with a short path for the socket."""

    def __init__(self, options, directory):
        root = unpack(options.package, directory / "package") if options.package.is_file() else options.package
        self._options = options
        self._package = Package(root)
        logs = options.out / "logs"
        shutil.rmtree(logs, ignore_errors=True)
        logs.mkdir(parents=True)
        self._processes = Processes(logs)
        self._service = Service(self._package, self._processes, directory)
        environment = Environment(self._package, options.emulated, self._service.socket, directory / "libraries",
                                  options.python)
        self._check = Check(self._package, environment, self._service, self._processes, say)
        self.results = []

    def run(self):
        budget = Budget(self._options.limit)
        chosen = self._options.only or [part.name for part in PARTS]
        for part in PARTS:
            if part.name not in chosen:
                continue
            say(f"gpu-check: {part.name}: {part.purpose}")
            self.results.append(run_part(part, self._check, budget))
            say(f"gpu-check: {part.name}: {self.results[-1].result}: {self.results[-1].text}")
            self.write()

    def write(self):
        options = {"emulated": self._options.emulated, "limit_s": self._options.limit, "only": self._options.only}
        report.write_json(self._options.out / "gpu-check.json", self.results, self._check.machine,
                          self._package.description(), options)
        report.write(self._options.out / "gpu-check.txt", report.table(self.results) + "\n")

    def end(self):
        self._service.stop()
        self._processes.kill_all()


def main():
    options = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # The path of a socket has at most 107 bytes.
    short = None if len(tempfile.gettempdir()) <= 70 else "/tmp"
    directory = pathlib.Path(tempfile.mkdtemp(prefix="mccs-gpu-check-", dir=short))
    run, status = None, 0
    try:
        (directory / "package").mkdir()
        run = Run(options, directory)
        run.run()
        status = report.exit_status(run.results)
    except BadPackage as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt:
        status = INTERRUPTED
    finally:
        # A second Ctrl-C must not leave processes.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if run:
            run.end()
        shutil.rmtree(directory, ignore_errors=True)
    if status == INTERRUPTED:
        print("gpu-check: interrupted", file=sys.stderr)
    if run is None:
        return status
    run.write()
    say("\n" + report.table(run.results))
    say(f"results: {options.out}/gpu-check.json")
    return status


if __name__ == "__main__":
    sys.exit(main())
