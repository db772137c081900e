"""Table fig9: step times of three training jobs of the published set-up S3; A is the favoured job.

PFA: A's flows avoid the others' links, and its packets have higher priority. PFA + TS: the same, and C waits for B on
shared links. reserved: the published PFA, with one of two spines for A alone. TS: B and C wait for A."""
import statistics
import time

from fabric import end, random_ports, steps_of

# Published: A all-reduces 548 MB after 160 ms of compute, B and C 80 MB after 6 ms, over links of 50 Gbit/s. Here links
# have 1/500 of that rate, so bytes are scaled by 1/137 and times by 500/137.
SCALE = 137
STRETCH = 500 / SCALE
JOBS = {
    "A": ("a", ["h2", "h1"], 2, None, int(548e6 / SCALE) // 4 * 4, 160 * STRETCH),
    "B": ("b", ["h3", "h5"], 1, 0, int(80e6 / SCALE) // 4 * 4, 6 * STRETCH),
    "C": ("c", ["h3", "h5"], 1, 1, int(80e6 / SCALE) // 4 * 4, 6 * STRETCH),
}
# Ratios of job completion times to those under fair assignment.
PAPER = {"ECMP": {"A": 1.18, "B": 1.22, "C": 1.14}, "FFA": {"A": 1.0, "B": 1.0, "C": 1.0},
         "PFA": {"A": 0.88, "B": 1.32, "C": 1.23}, "PFA + TS": {"A": 0.88, "B": 1.14, "C": 1.43}}
RESERVED = ["leaf0-spine0", "leaf1-spine0"]
HIGH = 5  # priority of a Tenant; the lab's switches send it before priority 0
# Time for flows of earlier jobs to move, and for periods to be detected.
SETTLE_S = 12


def arms(options):
    """By arm: job A's priority, and a list of runs, each a map from names to specs of policies."""
    first = {"type": "priority_flow", "parameters": {"favoured": ["a"]}}
    reserved = {"type": "priority_flow", "parameters": {"favoured": ["a"], "reserved_links": RESERVED}}
    after_b = {"type": "time_windows", "parameters": {"favoured": ["b"]}, "selector": {"tenants": ["b", "c"]}}
    return {"ECMP": (0, [{"testbed": random_ports(seed)} for seed in range(1, options.few_seeds + 1)]),
            "FFA": (0, [{"testbed": {"type": "fair_flow"}}]),
            "PFA": (HIGH, [{"testbed": first}]),
            "PFA + TS": (HIGH, [{"testbed": first, "after-b": after_b}]),
            "reserved": (0, [{"testbed": reserved}]),
            "TS": (0, [{"testbed": {"type": "time_windows", "parameters": {"favoured": ["a"]}}}])}


def measure(fabric, policies, seconds):
    """Mean seconds of a step, by job, while all jobs run."""
    for name, spec in policies.items():
        fabric.apply(spec, name)
    running = {name: fabric.training(*job) for name, job in JOBS.items()}
    try:
        time.sleep(SETTLE_S)
        begun = time.monotonic()
        time.sleep(seconds)
        ended = time.monotonic()
    finally:
        output = dict(zip(running, end(running.values())))
        for name in policies:
            fabric.control("delete", "policy", name)
    steps = {name: [took for when, took in steps_of(lines) if begun + took <= when <= ended]
             for name, lines in output.items()}
    for name, of_job in steps.items():
        if len(of_job) < 3:
            raise RuntimeError(f"job {name} made {len(of_job)} steps in {seconds} s:\n{output[name]}")
    return {name: statistics.fmean(of_job) for name, of_job in steps.items()}


def run(fabric, options, report):
    for tenant, *_ in JOBS.values():
        fabric.apply_tenant(tenant)
    results = {}
    try:
        for arm, (priority, runs) in arms(options).items():
            fabric.apply_tenant(JOBS["A"][0], priority=priority)
            results[arm] = []
            for policies in runs:
                results[arm].append(measure(fabric, policies, options.seconds))
                report(f"{arm}: " + ", ".join(f"{name} {1e3 * took:.0f} ms" for name, took in results[arm][-1].items()))
    finally:
        fabric.apply_tenant(JOBS["A"][0])
    means = {arm: {name: statistics.fmean(run[name] for run in runs) for name in JOBS} for arm, runs in results.items()}
    ratios = {arm: {name: mean[name] / means["FFA"][name] for name in JOBS} for arm, mean in means.items()}
    return [{"table": "fig9", "seconds": results, "mean_seconds": means, "over_fair": ratios, "paper": PAPER}]


def text(figures):
    figure, = figures
    lines = ["arm        time of a step over that under FFA (paper)                 ms of a step"]
    for arm, ratios in figure["over_fair"].items():
        paper = figure["paper"].get(arm, {})
        shown = "  ".join(f"{name} {ratio:.2f} ({paper[name]:.2f})" if paper else f"{name} {ratio:.2f}"
                          for name, ratio in ratios.items())
        ms = "  ".join(f"{name} {1e3 * took:6.0f}" for name, took in figure["mean_seconds"][arm].items())
        lines.append(f"{arm:<10} {shown:<55} {ms}")
    return "\n".join(lines)


def draw(figures, pyplot):
    figure, = figures
    chart, axis = pyplot.subplots(figsize=(7, 4))
    width = 0.8 / len(figure["over_fair"])
    for i, (arm, ratios) in enumerate(figure["over_fair"].items()):
        at = [j + (i + 0.5) * width - 0.4 for j in range(len(ratios))]
        axis.bar(at, list(ratios.values()), width, label=arm)
        if arm in figure["paper"]:
            axis.plot(at, [figure["paper"][arm][name] for name in ratios], "k_", markersize=12,
                      label="published" if i == 0 else None)
    axis.set(xticks=range(len(JOBS)), xticklabels=[f"job {name}" for name in JOBS], ylabel="time of a step over that under FFA",
             title="S3 with one favoured job")
    axis.axhline(1, color="grey", linewidth=0.5)
    axis.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))  # outside the bars
    return chart
