#!/usr/bin/env python3
"""Measures how long attacks delay another tenant's 8-byte calls.

On a lab of one host, small_calls repeats an 8-byte all-reduce as tenant `victim`: alone, and beside each attack, by a
program of tenant `attacker` or by a stranger on the network (share/bench/attacks.py). Prints the longest gap between
two calls, how long the victim's thread and the daemon's engine were runnable in it without a processor, and the
longest gap without steal time of a virtual machine; then the rest of it without these waits, which includes the daemon's
own delay. Prints one JSON line per figure and whether the target is met. Exit status 0 even if a target is missed; 1 if a
measurement fails, or an attack did nothing.
"""
import argparse
import json
import os
import pathlib
import signal
import sys

BIN = pathlib.Path(__file__).resolve().parent
SHARE = BIN.parent / "share/bench"
sys.path.insert(0, str(SHARE))

import attacks  # noqa: E402
from measuring import call  # noqa: E402
from small_call_gaps import TIMEOUT_S, end_of, expect, in_lab, processes, unstolen  # noqa: E402

VICTIM, ATTACKER = "victim", "attacker"
# Allowed difference from the longest gap alone.
TARGET_MS = 10.0


def calls_of_victim(lab, seconds):
    calls = lab.start(BIN / "small_calls", seconds, "--engine", lab.engine, tenant=VICTIM)
    expect(calls, "begun")
    return end_of(calls)


def endpoint_of(lab):
    found = json.loads(call(*lab.command(BIN / "mccsctl", "get", "hosts", "-o", "json")))
    return found["hosts"][0]["host"]["peer_endpoint"]


def beside(lab, attack, seconds):
    """The victim's gaps, and how often the attack was repeated."""
    arguments = [endpoint_of(lab)] if attack in attacks.OF_A_STRANGER else []
    attacker = lab.start(sys.executable, SHARE / "attacks.py", attack.__name__, *arguments, tenant=ATTACKER)
    try:
        expect(attacker, "begun")
        found = calls_of_victim(lab, seconds)
    finally:
        for process in processes("python3", "attacks.py", lab.name):
            os.kill(process, signal.SIGTERM)
        output, _ = attacker.communicate(timeout=TIMEOUT_S)
    lines = output.split()
    if not lines or not lines[-1].isdigit() or int(lines[-1]) == 0:
        raise RuntimeError(f"the attack '{attack.__name__}' did nothing: its output is '{output}'")
    return found, int(lines[-1])


def own_delay(gap):
    """The rest of a gap without waits for processors and steal time."""
    return max(0.0, unstolen(gap) - max(gap["caller"], gap["engine"]))


def report(name, found, alone, repeated, about):
    longest, rest = found["longest"], found["unstolen"]
    figures = {"longest gap": longest["ms"], "caller waited for a processor": longest["caller"],
               "engine waited for a processor": longest["engine"], "longest gap less steal time": unstolen(rest),
               "the daemon's own": own_delay(rest), "99th percentile": found["p99"], "median": found["median"]}
    judged = {}
    if alone is not None:
        for key, theirs, ours in (("longest gap", longest["ms"], alone["longest"]["ms"]),
                                  ("the daemon's own", own_delay(rest), own_delay(alone["unstolen"]))):
            judged[key] = f"{'MET' if theirs - ours <= TARGET_MS else 'MISSED'} (target <= alone + {TARGET_MS:.0f})"
    print(f"{name}: {found['calls']} calls" + (f", repeated {repeated} times" if alone is not None else ""))
    for key, value in figures.items():
        print(f"  {key:32} {value:8.3f} ms  {judged.get(key, '')}".rstrip())
        line = {"bench": "attacked_calls", "attack": name, "figure": key, "value": round(value, 3), "unit": "ms"}
        print(json.dumps(line | ({"target": judged[key]} if key in judged else {}) | about), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = {attack.__name__: attack for attack in attacks.OF_A_TENANT + attacks.OF_A_STRANGER}
    parser.add_argument("--seconds", type=float, default=8, help="duration of each measurement")
    parser.add_argument("--only", nargs="+", choices=sorted(known), metavar="ATTACK",
                        help=f"of {', '.join(known)}")
    options = parser.parse_args()

    def measure(lab, about):
        for name in options.only or known:
            alone = calls_of_victim(lab, options.seconds)
            report("alone", alone, None, 0, about)
            found, repeated = beside(lab, known[name], options.seconds)
            report(name, found, alone, repeated, about)
    return in_lab("attacked_calls", BIN, measure, tenants=(VICTIM, ATTACKER))


sys.exit(main())
