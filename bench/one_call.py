#!/usr/bin/python3
"""Traces 8-byte all-reduces on one host and between two hosts, and draws one of them hop by hop.

    bench/one_call.py docs/pictures/one-call.png

Starts a lab of each kind, and runs call_latency with one process per host in it, so that two processors suffice for one
host. Prints `mccsctl trace communicator`, and draws the call with the median time of another trace. Needs a release
build in build/bin, and matplotlib.
"""
import json
import os
import pathlib
import subprocess
import sys
import time

from measuring import call, machine

BIN = pathlib.Path(__file__).resolve().parents[1] / "build/bin"
BYTES = 8
RANKS = 2
CALLS = 1_000_000_000  # that are waited for: more than run meanwhile
OPERATIONS = 1000
START_TIMEOUT_S = 60
# Hops below this part of the longest call have no label, but a place in the legend.
LEAST_LABELLED = 0.07
# The steps of an operation, and the hops that end there (tools/mccsctl/trace_report.cc).
HOPS = {"all_posted_ns": "ranks", "started_ns": "ready", "first_sent_ns": "send", "first_landed_ns": "arrive",
        "last_landed_ns": "receive", "device_done_ns": "device", "done_ns": "done"}
COLOURS = dict(zip(HOPS.values(), ["tab:blue", "tab:cyan", "tab:green", "tab:olive", "tab:orange", "tab:red",
                                   "tab:purple"]))


def trace(hosts):
    """Of two ranks on `hosts` hosts: (table, JSON)."""
    lab = f"one-call-{os.getpid()}-{hosts}"
    call(BIN / "mccs-lab", "up", "--name", lab, "--hosts", hosts, "--gpus", RANKS // hosts)
    job = None
    try:
        mccsctl = [BIN / "mccs-lab", "exec", "--name", lab, "h0", "--", BIN / "mccsctl"]
        job = subprocess.Popen([BIN / "mccs-lab", "run", "--name", lab, "--ranks", str(hosts), "--ranks-per-host", "1",
                                "--", BIN / "call_latency", str(BYTES), str(CALLS), "-g", str(RANKS // hosts)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not (listed := json.loads(call(*mccsctl, "get", "communicators", "-o", "json"))["communicators"]) or \
                int(listed[0]["operations"]) < OPERATIONS:
            if time.monotonic() > deadline or job.poll() is not None:
                raise RuntimeError("call_latency runs no operations")
            time.sleep(0.1)
        words = [*mccsctl, "trace", "communicator", listed[0]["id"], "--operations", OPERATIONS]
        return call(*words), json.loads(call(*words, "-o", "json"))
    finally:
        call(BIN / "mccs-lab", "down", "--name", lab)
        if job is not None:
            job.wait()


def whole_ns(operation):
    return int(operation["done_ns"]) - int(operation["first_posted_ns"])


def median_call(host):
    return sorted(host["operations"], key=whole_ns)[(len(host["operations"]) - 1) // 2]


def hops_of(operation):
    """(name, begin, end) in ns from the first record, in the order of time."""
    origin = int(operation["first_posted_ns"])
    steps = sorted(((int(operation[step]) - origin, name) for step, name in HOPS.items() if int(operation[step])),
                   key=lambda step: step[0])  # stable: equal times stay in the order of HOPS
    begins = [0, *(end for end, _ in steps)]
    return [(name, begin, end) for begin, (end, name) in zip(begins, steps)]


def draw_lab(axis, title, hosts):
    """`hosts`: {name: operation}."""
    longest = max(map(whole_ns, hosts.values()))
    for row, operation in enumerate(hosts.values()):
        for name, begin, end in hops_of(operation):
            axis.barh(row, end - begin, left=begin, color=COLOURS[name])
            if end - begin >= LEAST_LABELLED * longest:
                axis.text((begin + end) / 2, row, f"{name}\n{end - begin}", ha="center", va="center", fontsize=7)
        axis.text(whole_ns(operation), row, f" {whole_ns(operation)} ns", va="center", fontsize=8)
    axis.set_yticks(range(len(hosts)), hosts)
    axis.invert_yaxis()
    axis.set_xlim(0, 1.12 * longest)
    axis.set_title(title, loc="left", fontsize=9)


def draw(path, labs):
    """`labs`: {title: {host: operation}}."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    chart, axes = pyplot.subplots(len(labs), figsize=(9, 4.2), height_ratios=[len(hosts) for hosts in labs.values()])
    for axis, (title, hosts) in zip(axes, labs.items()):
        draw_lab(axis, title, hosts)
    axes[-1].set_xlabel("ns since the daemon saw the first local rank's record")
    chart.legend(handles=[pyplot.Rectangle((0, 0), 1, 1, color=colour, label=name) for name, colour in COLOURS.items()],
                 loc="upper center", ncol=len(COLOURS), fontsize=8, frameon=False)
    chart.tight_layout(rect=(0, 0, 1, 0.94))
    chart.savefig(path, dpi=150)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(f"{machine()}, load average {os.getloadavg()[0]:.1f}")
    labs = {}
    for hosts, title in (1, "one host, two ranks in one process"), (2, "two hosts, one rank each"):
        table, traced = trace(hosts)
        print(f"\n{title}\n{table}")
        labs[title] = {host["host"]: median_call(host) for host in traced["hosts"]}
    draw(sys.argv[1], labs)


if __name__ == "__main__":
    main()
