"""Table fig6: one job on all hosts: MCCS with and without its policies, OpenMPI and Gloo."""
import itertools
import statistics

from fabric import MIB, PLACED, library_order, limit_us, random_ports

# Algorithm bandwidths of the published prototype relative to its library, at the largest size (docs/results/testbed.md).
PAPER = {("all_reduce", 2): 2.61, ("all_gather", 2): 2.57, ("all_reduce", 1): 1.57, ("all_gather", 1): 1.55}
OURS = {"placed": "ours", "ordered": "ours, no placement", "library": "ours, library's order"}
TARGET_S = 1.5  # duration of one measurement, if calls are shorter
HEADLINE = ("all_reduce", 2)  # the paper's main case: measured with all seeds at one size
PLACED_RUNS = 3
# Runs of a peer in that case: the kernel chooses its ports, so each run has random paths.
HEADLINE_PEER_RUNS = 8


def iterations_for(microseconds):
    return max(1, min(50, int(TARGET_S * 1e6 / microseconds)))


def is_headline(options, op, ranks_per_host, size):
    return (op, ranks_per_host) == HEADLINE and size == options.seeds_at


def seeds_of(options, *case):
    return range(1, (options.seeds if is_headline(options, *case) else options.few_seeds) + 1)


def peer_runs_of(options, *case):
    return HEADLINE_PEER_RUNS if is_headline(options, *case) else options.few_seeds


class Progress:
    """Reports each measurement and the progress."""

    def __init__(self, measurements, report):
        self._of, self._done, self._report = measurements, 0, report

    def __call__(self, what, microseconds):
        self._done += 1
        self._report(f"{self._done} of {self._of}: {what}: {microseconds / 1e3:.1f} ms")
        return microseconds


def measure(fabric, op, ranks_per_host, size, seeds, peers, peer_runs, note):
    """Microseconds of each run, by arm."""
    call = f"{op} {size >> 10} KiB, {4 * ranks_per_host} ranks"
    limit = limit_us(ranks_per_host, op, size)
    fabric.apply(PLACED)
    times = {"placed": [note(f"{call}, placed", fabric.ours(ranks_per_host, op, size, iterations_for(limit)))
                        for _ in range(PLACED_RUNS)]}
    for arm, policy in (("ordered", random_ports), ("library", library_order)):
        times[arm] = []
        for seed in seeds:
            fabric.apply(policy(seed))
            times[arm].append(note(f"{call}, {arm}, seed {seed}",
                                   fabric.ours(ranks_per_host, op, size, iterations_for(3 * limit))))
    for name, peer in peers.items():
        times[name] = [note(f"{call}, {name}, run {run}", peer(ranks_per_host, op, size, iterations_for(3 * limit)))
                       for run in range(1, peer_runs + 1)]
    return times


def run(fabric, options, report):
    figures = []
    peers = {} if options.no_peers else fabric.peers(report)
    cases = list(itertools.product(options.op, options.ranks_per_host, options.size))
    note = Progress(sum(PLACED_RUNS + 2 * len(seeds_of(options, *case)) + len(peers) * peer_runs_of(options, *case)
                        for case in cases), report)
    for op, ranks_per_host, size in cases:
        seeds = seeds_of(options, op, ranks_per_host, size)
        times = measure(fabric, op, ranks_per_host, size, seeds, peers, peer_runs_of(options, op, ranks_per_host, size),
                        note)
        means = {arm: statistics.fmean(values) for arm, values in times.items()}
        figures.append({"table": "fig6", "op": op, "ranks": 4 * ranks_per_host, "bytes": size,
                        "limit_us": limit_us(ranks_per_host, op, size), "microseconds": times,
                        "mean_us": means, "seeds": len(seeds),
                        "over_library": means["library"] / means["placed"],
                        "paper_over_library": PAPER[op, ranks_per_host],
                        "of_limit": limit_us(ranks_per_host, op, size) / means["placed"]})
    return figures


def best_peer(figure):
    """(name, microseconds) of the fastest peer; None: none was measured."""
    peers = {name: us for name, us in figure["mean_us"].items() if name not in OURS}
    return min(peers.items(), key=lambda peer: peer[1]) if peers else None


def text(figures):
    lines = [f"{'op':<10} {'ranks':>5} {'MiB':>6} | ms: {'ours':>9} {'no placement':>13} {'library order':>14} {'OpenMPI':>9} "
             f"{'Gloo':>9} {'limit':>9} | ours/library {'paper':>6} {'ours/best peer':>15} {'of limit':>9}"]
    for f in figures:
        mean = f["mean_us"]
        ms = [f"{mean[arm] / 1e3:.1f}" if arm in mean else "-" for arm in (*OURS, "OpenMPI ring", "Gloo ring")]
        best = best_peer(f)
        over_peer = f"{best[1] / mean['placed']:.2f}x" if best else "-"
        lines.append(
            f"{f['op']:<10} {f['ranks']:>5} {f['bytes'] / MIB:>6.4g} |     {ms[0]:>9} {ms[1]:>13} {ms[2]:>14} "
            f"{ms[3]:>9} {ms[4]:>9} {f['limit_us'] / 1e3:>9.1f} | {f['over_library']:>11.2f}x "
            f"{f['paper_over_library']:>5.2f}x {over_peer:>15} "
            f"{100 * f['of_limit']:>8.1f}%")
    for f in figures:
        if (f["op"], f["ranks"] // 4) != HEADLINE:
            continue
        for arm, microseconds in f["microseconds"].items():
            what = "by seed" if arm in ("ordered", "library") else "by run"
            lines.append(f"{f['op']}, {f['bytes'] / MIB:.4g} MiB, {OURS.get(arm, arm)}, ms {what}: "
                         + " ".join(f"{us / 1e3:.0f}" for us in microseconds))
    return "\n".join(lines)


def draw(figures, pyplot):
    kinds = list(dict.fromkeys((f["op"], f["ranks"]) for f in figures))
    chart, axes = pyplot.subplots(1, len(kinds), figsize=(5.5 * len(kinds), 4), squeeze=False)
    for axis, kind in zip(axes[0], kinds):
        here = [f for f in figures if (f["op"], f["ranks"]) == kind]
        for arm in here[0]["mean_us"]:
            line, = axis.plot([f["bytes"] / MIB for f in here], [f["bytes"] / f["mean_us"][arm] for f in here], marker="o",
                              label=OURS.get(arm, arm))
            axis.scatter([f["bytes"] / MIB for f in here for _ in f["microseconds"][arm]],
                         [f["bytes"] / us for f in here for us in f["microseconds"][arm]], s=8, alpha=0.4,
                         color=line.get_color())  # individual runs and seeds
        axis.plot([f["bytes"] / MIB for f in here], [f["bytes"] / f["limit_us"] for f in here], "--", color="grey",
                  label="the links' limit")
        axis.set(title=f"{kind[0]}, {kind[1]} ranks on 4 hosts", xlabel="MiB", ylabel="algbw, MB/s", xscale="log",
                 ylim=(0, None))
        axis.set_xticks([f["bytes"] / MIB for f in here], [f"{f['bytes'] / MIB:g}" for f in here])
        axis.minorticks_off()
    # One legend outside the charts: lines cross every corner.
    axes[0][-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=9)
    return chart
