"""Table fig8: several concurrent jobs in the published set-ups S1 to S4; busbw of each, and the sum.

placed: fair_flow places each flow, and TCP shares the links. held: shares does the same and limits each flow to its
fair share. ordered: the best order and random ports. library: hosts in the order of ranks and random ports. All arms
have two flows per NIC and differ only in placement."""
import json
import math
import subprocess
import time

from fabric import LIBRARY_ORDER, LINK_BPS, MIB, PLACED, SPINES, library_order, end, random_ports

SIZE = MIB  # small, because only complete calls count
# Per job: hosts, ranks per host, GPU (None: all).
SETUPS = {
    "S1": {"A": (["h2", "h1"], 2, None), "B": (["h3", "h5"], 2, None)},
    "S2": {"A": (LIBRARY_ORDER, 1, 0), "B": (["h2", "h1"], 1, 1), "C": (["h3", "h5"], 1, 1)},
    "S3": {"A": (["h2", "h1"], 2, None), "B": (["h3", "h5"], 1, 0), "C": (["h3", "h5"], 1, 1)},
    "S4": {"A": (LIBRARY_ORDER, 1, 0), "B": (LIBRARY_ORDER, 1, 1)},
}
# Sums of busbw in the published table, GB/s: library, best order.
PAPER = {"S1": (8.56, 8.56), "S2": (6.58, 8.35), "S3": (9.36, 9.36), "S4": (4.06, 7.90)}


def finer(policy):
    """The policy with two flows per NIC: one per spine, so that each job can use both spines."""
    return {**policy, "parameters": {**policy.get("parameters", {}), "channels_per_nic": 2}}


def busbw(bytes_per_s, hosts, ranks):
    """busbw in MB/s (nccl-tests) of an all-reduce in which each host sends `bytes_per_s`."""
    return bytes_per_s / 1e6 * hosts / (hosts - 1) * (ranks - 1) / ranks


def optimum(jobs):
    """busbw in MB/s of each job by max-min fair shares of the links' full rates, independent of the controller. Each
    ring (one per NIC) crosses between the racks once per direction, and all rings together share all spines."""
    rings = {name: ranks_per_host for name, (_, ranks_per_host, _) in jobs.items()}
    of_ring = min(LINK_BPS, SPINES * LINK_BPS / sum(rings.values())) / 8
    return {name: busbw(rings[name] * of_ring, len(hosts), len(hosts) * ranks_per_host)
            for name, (hosts, ranks_per_host, _) in jobs.items()}


def explained(fabric, communicator, ranks):
    """busbw in MB/s that `mccsctl explain` expects for the job, scaled to the links' full rates."""
    explanation = fabric.explained(communicator, 0.2)
    of_channels = {}
    for flow in explanation["flows"]:
        if flow["in_ring"]:
            of_channels.setdefault(flow["channel"], []).append(flow["fair_share_bps"])
    if not of_channels:
        return math.nan
    hosts = max(map(len, of_channels.values()))
    return busbw(sum(map(min, of_channels.values())) / explanation["payload_fraction"] / 8, hosts, ranks)


def measure(fabric, jobs, policy, seconds):
    """(busbw of each job in MB/s while all jobs run; the busbw that `mccsctl explain` expects for each)."""
    fabric.apply(policy)
    running = {}
    ids = {}
    try:
        for name, (hosts, ranks_per_host, gpu) in jobs.items():
            before = {c["id"] for c in fabric.communicators()}
            running[name] = subprocess.Popen(
                [str(a) for a in fabric.command(hosts, ranks_per_host, "all_reduce", SIZE, 1_000_000, gpu=gpu,
                                                 tenant=name.lower())],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            deadline = time.monotonic() + 30
            while name not in ids:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"job {name} did not start")
                ids.update({name: c["id"] for c in fabric.communicators()
                            if c["id"] not in before and int(c.get("operations", 0)) > 0})
        time.sleep(2)  # flows of earlier jobs may move
        top = json.loads(fabric.control("top", "--once", "--interval", seconds, "-o", "json"))
        by_id = {c["id"]: c for c in top["communicators"]}
        return ({name: float(by_id[id]["busbw"]) / 1e6 for name, id in ids.items()},
                {name: explained(fabric, id, by_id[id]["ranks"]) for name, id in ids.items()})
    finally:
        end(running.values())


def run(fabric, options, report):
    figures = []
    for setup in options.setup:
        seeds = range(1, options.few_seeds + 1)
        arms = {"placed": [finer(PLACED)], "held": [finer({"type": "shares"})],
                "ordered": [finer(random_ports(seed)) for seed in seeds],
                "library": [finer(library_order(seed)) for seed in seeds]}
        results, expected = {}, {}
        for arm, policies in arms.items():
            runs = [measure(fabric, SETUPS[setup], policy, options.seconds) for policy in policies]
            results[arm] = [measured for measured, _ in runs]
            expected[arm] = runs[0][1]
            report(f"{setup} {arm}: {results[arm]}")
        figures.append({"table": "fig8", "setup": setup, "megabytes_per_s": results, "paper_sums": PAPER[setup],
                        "optimum": optimum(SETUPS[setup]), "explained": expected["held"]})
    return figures


def apart(figure, arm):
    """Difference of the fastest job from the slowest one, in percent."""
    runs = figure["megabytes_per_s"][arm]
    means = [sum(run[name] for run in runs) / len(runs) for name in runs[0]]
    return 100 * (max(means) / min(means) - 1)


def text(figures):
    lines = ["setup arm        busbw of each job, MB/s (mean over seeds)              sum   over library (paper: best order)"]
    for f in figures:
        sums = {}
        for arm, runs in f["megabytes_per_s"].items():
            jobs = {name: sum(run[name] for run in runs) / len(runs) for name in runs[0]}
            sums[arm] = sum(jobs.values())
            lines.append(f"{f['setup']:<5} {arm:<9}  {'  '.join(f'{n} {v:7.2f}' for n, v in jobs.items()):<50} {sums[arm]:>8.2f}")
        best = sum(f["optimum"].values())
        for name, of_jobs in (("max-min", f["optimum"]), ("explained", f["explained"])):
            lines.append(f"{f['setup']:<5} {name:<9}  {'  '.join(f'{n} {v:7.2f}' for n, v in of_jobs.items()):<50} "
                         f"{sum(of_jobs.values()):>8.2f}")
        equal = max(f["optimum"].values()) - min(f["optimum"].values()) < 0.01 * best
        lines.append(f"{'':<5} placed/library {sums['placed'] / sums['library']:.2f}x, paper "
                     f"{f['paper_sums'][1] / f['paper_sums'][0]:.2f}x; placed {100 * sums['placed'] / best:.1f} %, held "
                     f"{100 * sums['held'] / best:.1f} % of max-min"
                     + (f"; jobs apart by {apart(f, 'placed'):.1f} % placed, {apart(f, 'held'):.1f} % held" if equal else ""))
    return "\n".join(lines)


def draw(figures, pyplot):
    chart, axes = pyplot.subplots(1, len(figures), figsize=(4 * len(figures), 4), squeeze=False)
    for axis, f in zip(axes[0], figures):
        arms = list(f["megabytes_per_s"])
        bottom = [0.0] * len(arms)
        for job in f["megabytes_per_s"]["placed"][0]:
            values = [sum(run[job] for run in f["megabytes_per_s"][arm]) / len(f["megabytes_per_s"][arm])
                      for arm in arms]
            axis.bar(arms, values, bottom=bottom, label=f"job {job}")
            bottom = [b + v for b, v in zip(bottom, values)]
        axis.set(title=f["setup"], ylabel="busbw, MB/s")
        axis.legend(fontsize=8)
    return chart
