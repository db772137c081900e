"""Table shares: how well caps and guarantees hold in each second, on a link that two tenants share."""
import collections
import statistics
import time

from fabric import MIB, end

SIZE = 4 * MIB
HOSTS = ["h2", "h1"]  # in two racks
DRAINED = ["leaf0-spine1", "leaf1-spine1"]  # leaves one spine for all flows
CAP_MBPS, GUARANTEE_MBPS = 30, 60
# The spec of each Tenant; b sends as much as it can.
CASES = {
    "a alone": ({"a": {}}, None),
    f"a capped at {CAP_MBPS} Mbit/s": ({"a": {"cap": f"{CAP_MBPS}Mbit/s"}}, ("at most", CAP_MBPS)),
    "a and b": ({"a": {}, "b": {}}, None),
    f"a guaranteed {GUARANTEE_MBPS} Mbit/s, beside b":
        ({"a": {"guarantee": f"{GUARANTEE_MBPS}Mbit/s"}, "b": {}}, ("at least", GUARANTEE_MBPS)),
    "b of weight 3, beside a": ({"a": {}, "b": {"weight": 3}}, None),
}
SETTLE_S = 4


def sample(fabric, host_of):
    """Mbit/s of payload that each tenant sends, over one second of the daemon's clock; `host_of` selects among its
    hosts."""
    rates = {}
    for communicator in fabric.communicators():
        of_hosts = collections.Counter()
        for flow in fabric.flows(communicator["id"], 1):
            of_hosts[flow["from"]] += flow["measured_bps"] / 1e6
        rates[communicator["tenant"]] = host_of(of_hosts.values())
    return rates


def measure(fabric, tenants, host_of, seconds):
    for name, spec in tenants.items():
        fabric.apply_tenant(name, **spec)
    jobs = [fabric.training(name, HOSTS, 1, gpu, SIZE, 0) for gpu, name in enumerate(tenants)]
    try:
        time.sleep(SETTLE_S)
        return [sample(fabric, host_of) for _ in range(max(3, int(seconds)))]
    finally:
        end(jobs)


def run(fabric, options, report):
    fabric.apply({"type": "shares"})
    for link in DRAINED:
        fabric.control("drain", "link", link)
    try:
        return [figure_of(case, fabric, options, report) for case in CASES]
    finally:
        # Restore the state for other tables.
        for link in DRAINED:
            fabric.control("undrain", "link", link)
        fabric.control("delete", "tenant", "a")
        fabric.control("delete", "tenant", "b")


def figure_of(case, fabric, options, report):
    tenants, promise = CASES[case]
    # The worst host and second: highest for a cap, lowest for a guarantee.
    worst = max if promise and promise[0] == "at most" else min
    samples = measure(fabric, tenants, worst, options.seconds)
    of_a = [each["a"] for each in samples]
    figure = {"table": "shares", "case": case, "megabits_per_s": samples, "promise": promise}
    if promise:
        figure["worst_of_promise"] = worst(of_a) / promise[1]
    report(f"{case}: {[round(rate, 1) for rate in of_a]}")
    return figure


def text(figures):
    lines = ["payload in Mbit/s, mean over seconds (least, most)                                 worst second relative to the cap or guarantee"]
    for f in figures:
        shown = "  ".join(
            f"{name} {statistics.fmean(rates):5.1f} ({min(rates):.1f}, {max(rates):.1f})"
            for name in f["megabits_per_s"][0] for rates in [[each[name] for each in f["megabits_per_s"]]])
        worst = f"{100 * f['worst_of_promise']:.1f} %" if f["promise"] else ""
        lines.append(f"{f['case']:<32} {shown:<48} {worst}")
    return "\n".join(lines)


def draw(figures, pyplot):
    chart, axes = pyplot.subplots(1, len(figures), figsize=(3 * len(figures), 3.5), squeeze=False, sharey=True)
    for axis, f in zip(axes[0], figures):
        for name in sorted(f["megabits_per_s"][0]):
            axis.plot([each[name] for each in f["megabits_per_s"]], marker=".", label=f"tenant {name}",
                      color={"a": "C0", "b": "C1"}[name])  # the same in all charts
        if f["promise"]:
            axis.axhline(f["promise"][1], color="grey", linestyle="--", linewidth=0.8)
        axis.set(title=f["case"], xlabel="second", ylim=(0, 100))
        axis.title.set_fontsize(8)
        axis.legend(fontsize=7)
    axes[0][0].set_ylabel("payload, Mbit/s")
    return chart
