"""Measures MCCS beside OpenMPI, Gloo and the limits of this machine, in alternating rounds.

Prints a table with the minimum, median and maximum over the rounds. Writes it as JSON lines and draws curves of time
and bandwidth over size. Each round runs every program once, so that figures of a row come from the same minute. For
each group it prints the share of time in which a runnable program waited for a processor, and the steal time of the
virtual machine: high values mean a busy machine.

Exit status: 0; 1 if a measurement fails or, with --compare, a ratio is worse by more than 15 % and in all rounds; 2 for
wrong options.
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

import paths
import compare
import curves
import kernels
import one_host
import programs
import scale
import small_calls
import tenants
import two_hosts
from figures import results
from measuring import machine

GROUPS = {"kernels": kernels, "one_host": one_host, "two_hosts": two_hosts, "small_calls": small_calls,
          "scale": scale, "tenants": tenants, "curves": curves}
LAB_HOSTS = 2
LAB_GPUS = 8


def say(line):
    print(f"bench: {line}", file=sys.stderr, flush=True)


class ProcessorWait:
    """The time in which some runnable thread of this machine had no processor, and steal time, in seconds."""
    TICK_S = 0.01

    def __init__(self):
        self._start = self._read()

    @staticmethod
    def _read():
        try:
            pressure = re.search(r"some .*total=(\d+)", pathlib.Path("/proc/pressure/cpu").read_text())
            waited = int(pressure.group(1)) / 1e6
        except (OSError, AttributeError):
            waited = float("nan")
        stat = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()
        return time.monotonic(), waited, int(stat[8]) * ProcessorWait.TICK_S

    def shares(self):
        """(share of time in which a runnable thread waited, steal time per processor and second) so far."""
        elapsed, waited, stolen = (now - then for now, then in zip(self._read(), self._start))
        return waited / elapsed, stolen / elapsed / (os.cpu_count() or 1)


def duration(seconds):
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def measure(chosen, rounds):
    """A dict of values by name per round."""
    lab = programs.Lab(LAB_HOSTS, LAB_GPUS)
    try:
        measurements = [(group, each) for group in chosen for each in GROUPS[group].measurements(lab)]
        seconds = {each.name: each.seconds for _, each in measurements}
        say(f"{len(measurements)} measurements, {rounds} rounds: about {duration(rounds * sum(seconds.values()))}")
        found = []
        for number in range(rounds):
            values = {}
            found.append(values)
            for group, each in measurements:
                wait, begun = ProcessorWait(), time.monotonic()
                values |= each.run()
                seconds[each.name] = time.monotonic() - begun
                waited, stolen = wait.shares()
                for kind, share in (("waited", waited), ("stolen", stolen)):
                    values.setdefault(f"{kind}/{group}", []).append((share, seconds[each.name]))
                names = list(seconds)
                left = sum(list(seconds.values())[names.index(each.name) + 1:])
                left += (rounds - number - 1) * sum(seconds.values())
                say(f"round {number + 1} of {rounds}: {each.name}: {seconds[each.name]:.1f} s; about {duration(left)} to go")
        return found
    finally:
        lab.down()


def busy(rounds, kind, group):
    """Share of a group's time over all rounds."""
    parts = [part for values in rounds for part in values[f"{kind}/{group}"]]
    return sum(share * seconds for share, seconds in parts) / sum(seconds for _, seconds in parts)


def print_table(found, rounds, about):
    print(f"{about['machine']}; {about['date']}; minimum, median and maximum of {len(rounds)} alternating rounds")
    for group, table in found.items():
        print(f"\n{group}: runnable programs waited {busy(rounds, 'waited', group):.0%} of the time, steal time "
              f"{busy(rounds, 'stolen', group):.1%}")
        for result in table:
            row = result.row
            shown = " ".join(f"{count(result.values):10.2f}" for count in (min, lambda v: result.median, max)) \
                if result.values else f"{'-':>10} {'-':>10} {'-':>10}"
            print(f"  {row.name:66} {shown} {row.unit:3} {result.verdict()}")


def write(path, found, rounds, about):
    with path.open("w") as out:
        out.write(json.dumps(about) + "\n")
        for group, table in found.items():
            for result in table:
                out.write(json.dumps({"group": group} | result.as_json()
                                     | {"waited": round(busy(rounds, "waited", group), 3),
                                        "stolen": round(busy(rounds, "stolen", group), 4)}) + "\n")


def parse():
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="all groups (default)")
    which.add_argument("--only", nargs="+", choices=GROUPS, metavar="GROUP",
                       help=f"only these groups: {', '.join(GROUPS)}")
    parser.add_argument("--rounds", type=int, default=5, help="number of alternating rounds (default: 5)")
    parser.add_argument("--out", type=pathlib.Path, default=paths.SOURCE / "build/bench",
                        help="directory for bench.jsonl and pictures (default: build/bench)")
    parser.add_argument("--compare", nargs="?", type=pathlib.Path, const=paths.KEPT, metavar="FILE",
                        help="compare the ratios with an earlier bench.jsonl (default: the kept one, "
                             f"{paths.KEPT.relative_to(paths.SOURCE)})")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"invalid --rounds {options.rounds}: expected at least 1")
    if options.compare and not options.compare.is_file():
        parser.error(f"cannot read {options.compare}: no such file; run scripts/bench once and keep its bench.jsonl")
    return options


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the lab is stopped as well
    chosen = options.only or list(GROUPS)
    about = {"machine": machine(), "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
             "rounds": options.rounds}
    try:
        rounds = measure(chosen, options.rounds)
    except (RuntimeError, subprocess.TimeoutExpired, OSError) as error:
        say(f"{error}")
        return 1
    except KeyboardInterrupt:
        say("stopped")
        return 1
    found = {group: results(GROUPS[group].rows(), rounds) for group in chosen}
    found = {group: table for group, table in found.items() if table}
    print_table(found, rounds, about)
    options.out.mkdir(parents=True, exist_ok=True)
    write(options.out / "bench.jsonl", found, rounds, about)
    say(f"results: {options.out / 'bench.jsonl'}")
    if "curves" in chosen:
        for picture in curves.draw(rounds, options.out, f"{about['machine']}; {about['date'][:10]}"):
            say(f"picture: {picture}")
    if options.compare is None:
        return 0
    kept, then = compare.load(options.compare)
    now, _ = compare.load(options.out / "bench.jsonl")
    lines, compared = compare.losses(kept, now)
    print(f"\n{compared} ratios compared with those of {then['date'][:10]} ({then['machine']}): "
          f"{len(lines)} worse by more than {compare.TOLERANCE:.0%}")
    for line in lines:
        print(f"  {line}")
    if compared == 0:
        say(f"no ratio of this run is in {options.compare}")
        return 1
    return 1 if lines else 0


sys.exit(main())
