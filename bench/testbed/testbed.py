#!/usr/bin/python3
"""The tables of "MCCS" (SIGCOMM 2024) on a fabric of network namespaces with scaled-down links, compared with peers.

    mccs-lab up --topology tests/testbeds/mccs.yaml --network namespaces       # as root
    testbed --table fig6                   # one job: MCCS ("ours"), without placement, in the library's order, peers
    testbed --table fig8                   # S1 to S4: several concurrent jobs
    testbed --table fig9                   # S3 with one favoured job: step times of all jobs
    testbed --table reconfigure            # a background flow, and changes of routes under load
    testbed --table shares                 # caps and guarantees in each second

Prints the table, draws it (testbed-TABLE.png, or --png FILE), and writes a JSON line per figure (--json FILE). Exit
status 1 if a measurement fails, 77 if the lab does not exist.
"""
import argparse
import importlib
import json
import pathlib
import re
import subprocess
import sys

SHARE = pathlib.Path(__file__).resolve().parents[1] / "share"
sys.path[:0] = [str(SHARE / "testbed"), str(SHARE / "bench")]
TABLES = {"fig6": "single_job", "fig8": "several_jobs", "fig9": "quality_of_service", "reconfigure": "live_change",
          "shares": "entitlements"}
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size(text):
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"invalid size '{text}': expected a number such as 512K or 64M")
    return int(match.group(1)) * UNITS[match.group(2)]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", required=True, choices=TABLES)
    parser.add_argument("--lab", default="default", help="name of the lab (mccs-lab --name)")
    parser.add_argument("--op", nargs="+", choices=["all_reduce", "all_gather"], default=["all_reduce", "all_gather"])
    parser.add_argument("--ranks-per-host", nargs="+", type=int, choices=[1, 2], default=[2, 1])
    parser.add_argument("--size", nargs="+", type=size, default=[size(s) for s in ("512K", "8M", "64M", "128M")])
    parser.add_argument("--seeds", type=int, default=32, help="number of random port seeds for an all-reduce over 8 ranks")
    parser.add_argument("--seeds-at", type=size, default=size("64M"), help="size of that all-reduce")
    parser.add_argument("--few-seeds", type=int, default=4, help="number of seeds, and of runs of peers, for all other cases")
    parser.add_argument("--setup", nargs="+", default=["S1", "S2", "S3", "S4"], choices=["S1", "S2", "S3", "S4"])
    parser.add_argument("--seconds", type=float, default=10, help="duration of each measurement, except for single jobs")
    parser.add_argument("--no-peers", action="store_true", help="measure MCCS only")
    parser.add_argument("--json", type=argparse.FileType("w"), help="output file with one JSON line per figure")
    parser.add_argument("--png", help="output file of the picture (default: testbed-TABLE.png)")
    return parser.parse_args()


def main():
    options = parse()
    from fabric import BIN, Fabric
    status = subprocess.run([BIN / "mccs-lab", "status", "--name", options.lab], capture_output=True, text=True)
    if status.returncode != 0:
        print(f"testbed: lab '{options.lab}' does not exist; start it as root with `mccs-lab up --topology "
              "tests/testbeds/mccs.yaml --network namespaces`", file=sys.stderr)
        return 77
    table = importlib.import_module(TABLES[options.table])
    try:
        figures = table.run(Fabric(options.lab), options, lambda line: print(line, file=sys.stderr))
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    print(table.text(figures))
    if options.json:
        for figure in figures:
            options.json.write(json.dumps(figure) + "\n")
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    chart = table.draw(figures, pyplot)
    chart.tight_layout()
    picture = options.png or f"testbed-{options.table}.png"
    chart.savefig(picture, dpi=150)
    print(f"picture: {picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
