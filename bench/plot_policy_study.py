#!/usr/bin/python3
"""Draws the output of policy_study: the distribution of jobs' speedups.

    build/bin/policy_study | tee study.jsonl | bench/plot_policy_study.py study.png
"""
import json
import sys


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figures = [json.loads(line) for line in sys.stdin if line.strip()]
    placements = list(dict.fromkeys(figure["placement"] for figure in figures))
    chart, axes = pyplot.subplots(1, len(placements), figsize=(5.5 * len(placements), 4), squeeze=False)
    for axis, placement in zip(axes[0], placements):
        here = [figure for figure in figures if figure["placement"] == placement]
        for figure in here[1:]:  # the first is the baseline
            shares = [i / (len(figure["speedups"]) - 1) for i in range(len(figure["speedups"]))]
            axis.plot(figure["speedups"], shares, label=f"{figure['arm']}: {figure['mean_speedup']:.2f}× on average")
        axis.axvline(1, color="grey", linewidth=0.8)
        axis.set(title=f"{placement} placement", xlabel=f"times faster than with {here[0]['arm']}",
                 ylabel="part of the jobs", xlim=(0, None), ylim=(0, 1))
        axis.legend(loc="lower right", fontsize=8)
    chart.suptitle(f"{here[0]['jobs']} all-reduces of 100 MB on 768 GPUs, by a flow model")
    chart.tight_layout()
    chart.savefig(sys.argv[1], dpi=150)


if __name__ == "__main__":
    main()
