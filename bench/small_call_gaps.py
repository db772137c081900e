"""Runs small_calls in a lab of one host, for benchmarks of its longest gaps."""
import datetime
import os
import pathlib
import signal
import subprocess
import sys

from measuring import call, machine

TIMEOUT_S = 120


def processes(program, *words):
    """Pids of the program's processes that have all words in their command line or environment."""
    found = []
    for directory in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            line = (directory / "cmdline").read_bytes().split(b"\0")
            known = (directory / "cmdline").read_bytes() + (directory / "environ").read_bytes()
        except OSError:
            continue
        if line[0].endswith(program.encode()) and all(word.encode() in known for word in words):
            found.append(int(directory.name))
    return found


class Lab:
    """A lab of one host with two GPUs. `programs`: directory of mccs-lab and the daemon; `tenants`: names of sockets."""

    def __init__(self, programs, tenants=()):
        self.name = f"gap-{os.getpid()}"
        self.lab = programs / "mccs-lab"
        call(self.lab, "up", "--name", self.name, "--hosts", 1, "--gpus", 2,
             *(("--tenants", ",".join(tenants)) if tenants else ()))
        engines = processes("/mccsd", self.name)
        if len(engines) != 1:
            raise RuntimeError(f"found {len(engines)} processes of mccsd in lab {self.name}, expected 1")
        self.engine = engines[0]

    def down(self):
        call(self.lab, "down", "--name", self.name)

    def command(self, *program, tenant=None):
        """The command line that runs a program on the host."""
        options = ("--tenant", tenant) if tenant else ()
        return [str(a) for a in (self.lab, "exec", "--name", self.name, *options, "h0", "--", *program)]

    def start(self, *program, tenant=None):
        """Starts a program on the host, with its output in a pipe."""
        return subprocess.Popen(self.command(*program, tenant=tenant), stdout=subprocess.PIPE, text=True,
                                stdin=subprocess.DEVNULL)


def in_lab(bench, programs, measure, tenants=()):
    """Calls measure(lab, about) in a new lab; `about`: facts for each figure. Returns the exit status: 1 if it fails."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the lab is stopped as well
    about = {"machine": machine(), "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds")}
    try:
        lab = Lab(programs, tenants)
        try:
            measure(lab, about)
        finally:
            lab.down()
    except (RuntimeError, ValueError, subprocess.TimeoutExpired, OSError) as error:
        print(f"{bench}: {error}", file=sys.stderr)
        return 1
    return 0


def expect(process, line):
    found = process.stdout.readline().strip()
    if found != line:
        raise RuntimeError(f"{process.args}: expected '{line}', got '{found}'")


def end_of(calls):
    """Waits for the end; returns the number of calls, the longest gap, the longest gap without steal time, and the
    median and 99th percentile in milliseconds."""
    output, _ = calls.communicate(timeout=TIMEOUT_S)
    count, longest, unstolen_line, quantiles = output.strip().split("\n")
    median, p99 = map(float, quantiles.split())
    return {"calls": int(count), "longest": gap(longest), "unstolen": gap(unstolen_line), "median": median, "p99": p99}


def gap(line):
    return dict(zip(("ms", "caller", "engine", "stolen", "at"), map(float, line.split())))


def unstolen(gap):
    return max(0.0, gap["ms"] - gap["stolen"])
