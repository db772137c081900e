#!/usr/bin/env python3
"""How long a tenant's 8-byte calls stand still while another process has a lot of memory.

A lab of one host. small_calls reduces 8 bytes, one call after the other: alone, then while large_neighbour registers
its memory, reduces all of it, and is killed. Prints the longest gap between two calls, alone and beside, and how much
of it the calling thread and the daemon's engine were ready to run and had no processor: on a machine with few cores
that is the machine's share, not the daemon's. One JSON line per figure; a run whose target is missed says so. Exit
status 0 also then; 1 where something could not be measured at all.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

BIN = pathlib.Path(__file__).resolve().parent
# Beyond what the calls have alone.
TARGET_MS = 5.0
PATIENCE_S = 120
# The kernel and the daemon are through with the memory of 8 GiB by then.
AFTERMATH_S = 5.0


def call(*arguments):
    result = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=PATIENCE_S,
                            stdin=subprocess.DEVNULL)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, arguments))}: exit status {result.returncode}\n"
                           f"{result.stdout}{result.stderr}")
    return result.stdout


def processes(program, *words):
    """Ids of the processes of this program whose command line, or whose environment, has all of the words."""
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
    def __init__(self, programs):
        self.name = f"gap-{os.getpid()}"
        self.lab = programs / "mccs-lab"
        call(self.lab, "up", "--name", self.name, "--hosts", 1, "--gpus", 2)
        engines = processes("/mccsd", self.name)
        if len(engines) != 1:
            raise RuntimeError(f"{len(engines)} processes of mccsd in lab {self.name}, 1 expected")
        self.engine = engines[0]

    def down(self):
        call(self.lab, "down", "--name", self.name)

    def start(self, program, *arguments):
        """Runs it on the host, with its output in a pipe."""
        return subprocess.Popen([str(a) for a in (self.lab, "exec", "--name", self.name, "h0", "--", BIN / program,
                                                  *arguments)],
                                stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)


def expect(process, line):
    found = process.stdout.readline().strip()
    if found != line:
        raise RuntimeError(f"{process.args}: '{line}' expected, '{found}' printed")


def end_of(calls):
    output, _ = calls.communicate(timeout=PATIENCE_S)
    gap_ms, own, engines, at_ms, count = output.split()
    return {"gap": float(gap_ms), "own": float(own), "engine": float(engines), "at": float(at_ms), "calls": int(count)}


def alone(lab, seconds):
    calls = lab.start("small_calls", seconds, "--engine", lab.engine)
    expect(calls, "begun")
    return end_of(calls)


def beside(lab, gib, communicators):
    calls = lab.start("small_calls", PATIENCE_S, "--engine", lab.engine)
    expect(calls, "begun")
    begun = time.monotonic()
    phases = {}
    large = lab.start("large_neighbour", gib, "--communicators", communicators)
    expect(large, "registered")
    phases["registered"] = time.monotonic() - begun
    expect(large, "worked")
    phases["worked"] = time.monotonic() - begun
    for process in processes("/large_neighbour", lab.name):
        os.kill(process, signal.SIGKILL)
    phases["killed"] = time.monotonic() - begun
    large.wait(timeout=PATIENCE_S)
    time.sleep(AFTERMATH_S)
    for process in processes("/small_calls", lab.name):
        os.kill(process, signal.SIGTERM)
    found = end_of(calls)
    found["phases"] = phases
    return found


def phase_of(found):
    for name in ("registered", "worked", "killed"):
        if found["at"] / 1e3 < found["phases"][name]:
            return {"registered": "registering", "worked": "working", "killed": "being killed"}[name]
    return "behind its end"


def processor():
    found = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return found.group(1) if found else "unknown"


def report(run, neighbour, ours, theirs, machine):
    verdict = "MET" if theirs["gap"] - ours["gap"] <= TARGET_MS else "MISSED"
    figures = [
        ("longest gap alone", ours["gap"], ""),
        ("longest gap alone: caller waited for a processor", ours["own"], ""),
        ("longest gap alone: engine waited for a processor", ours["engine"], ""),
        (f"longest gap beside {neighbour}", theirs["gap"], f"{verdict} (target <= alone + {TARGET_MS})"),
        (f"longest gap beside {neighbour}: caller waited for a processor", theirs["own"], ""),
        (f"longest gap beside {neighbour}: engine waited for a processor", theirs["engine"], ""),
    ]
    print(f"run {run}: while the neighbour was {phase_of(theirs)}; calls {ours['calls']} alone, {theirs['calls']} beside")
    for name, value, verdict in figures:
        print(f"  {name:60} {value:10.3f} ms {verdict}")
    for name, value, verdict in figures:
        line = {"bench": "neighbour_gap", "figure": name, "value": value, "unit": "ms", "run": run}
        if verdict:
            line["target"] = verdict
            line["phase"] = phase_of(theirs)
        print(json.dumps(line | machine), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--gib", type=int, default=8, help="memory of the neighbour")
    parser.add_argument("--communicators", type=int, default=0, help="that the neighbour has besides")
    parser.add_argument("--seconds", type=float, default=10, help="of the calls alone")
    parser.add_argument("--programs", type=pathlib.Path, default=BIN, help="directory of mccs-lab and the daemon")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the lab goes down then, too
    machine = {"machine": f"{processor()}, {os.cpu_count()} cores",
               "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds")}
    neighbour = f"{options.gib} GiB"
    if options.communicators > 0:
        neighbour += f" and {options.communicators} communicators"
    try:
        lab = Lab(options.programs)
        try:
            for run in range(1, options.runs + 1):
                ours = alone(lab, options.seconds)
                report(run, neighbour, ours, beside(lab, options.gib, options.communicators), machine)
        finally:
            lab.down()
    except (RuntimeError, ValueError, subprocess.TimeoutExpired, OSError) as error:
        print(f"neighbour_gap: {error}", file=sys.stderr)
        return 1
    return 0


sys.exit(main())
