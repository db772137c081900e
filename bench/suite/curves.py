"""All-reduces from 8 B to 64 MiB with all peers, for the pictures."""
import statistics

import programs
from figures import Measurement

SMALL = (8, 32 << 10, 8)  # smallest, largest, factor
LARGE = (256 << 10, 64 << 20, 4)
ITERATIONS = {SMALL: 300, LARGE: 10}
PICTURES = {"one-host": "2 ranks on one host", "two-hosts": "2 hosts x 1 rank over loopback"}


def sizes(bounds):
    size, largest, factor = bounds
    while size <= largest:
        yield size
        size *= factor


def name(picture, who, size):
    return f"curve/{picture}/{who}/{size}"


def measurements(lab):
    def ours(picture, per_host):
        return {name(picture, "MCCS", size): time for bounds, iterations in ITERATIONS.items()
                for (_, size), time in lab.collectives(2, per_host, "all_reduce", bounds, iterations).items()}

    def open_mpi(picture, transport):
        return {name(picture, "OpenMPI", size): time for bounds, iterations in ITERATIONS.items()
                for size, time in programs.open_mpi(transport, 2, "all_reduce", list(sizes(bounds)), iterations).items()}

    def gloo(picture):
        return {name(picture, "Gloo", size): time for bounds, iterations in ITERATIONS.items()
                for size, time in programs.gloo(2, "all_reduce", list(sizes(bounds)), iterations).items()}

    yield Measurement("curve of MCCS, one host", 4, lambda: ours("one-host", 2))
    yield Measurement("curve of OpenMPI, shared memory", 8, lambda: open_mpi("one-host", programs.SHARED_MEMORY))
    yield Measurement("curve of Gloo, one host", 15, lambda: gloo("one-host"))
    yield Measurement("curve of MCCS, two hosts", 4, lambda: ours("two-hosts", 1))
    yield Measurement("curve of OpenMPI, TCP", 8, lambda: open_mpi("two-hosts", programs.TCP))


def rows():
    return []


def short(size):
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            break
        size //= 1024
    return f"{size} {unit}"


def series(rounds, picture, who):
    """(sizes, medians, minima, maxima) in microseconds."""
    every = [*sizes(SMALL), *sizes(LARGE)]
    times = {size: [values[name(picture, who, size)] for values in rounds if name(picture, who, size) in values]
             for size in every}
    times = {size: found for size, found in times.items() if found}
    return (list(times), *([count(found) for found in times.values()] for count in (statistics.median, min, max)))


def draw(rounds, directory, about):
    """Writes a picture of bandwidth and latency per place; returns the files."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    written = []
    for picture, title in PICTURES.items():
        chart, (latency, bandwidth) = pyplot.subplots(1, 2, figsize=(11, 4.2))
        # Gloo's connections are the same on one and on two hosts of this machine.
        for who, source in (("MCCS", picture), ("OpenMPI", picture), ("Gloo", "one-host")):
            size, median, low, high = series(rounds, source, who)
            if not size:
                continue
            line, = latency.plot(size, median, marker="o", markersize=3, label=who)
            latency.fill_between(size, low, high, alpha=0.2, color=line.get_color())
            large = [i for i, each in enumerate(size) if each >= LARGE[0]]
            bandwidth.plot([size[i] for i in large], [size[i] / median[i] / 1e3 for i in large], marker="o",
                           markersize=3, label=who)
            bandwidth.fill_between([size[i] for i in large], [size[i] / high[i] / 1e3 for i in large],
                                   [size[i] / low[i] / 1e3 for i in large], alpha=0.2, color=line.get_color())
        latency.set(yscale="log", xlabel="size", ylabel="µs per call", title=f"time, {title}")
        bandwidth.set(xlabel="size", ylabel="bus bandwidth (GB/s)", ylim=(0, None),
                      title=f"bandwidth, {title}")
        for axes in (latency, bandwidth):
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter(lambda size, _: short(int(size)))
            axes.grid(alpha=0.3)
            axes.legend()
        chart.suptitle(f"all_reduce float32; {about}", fontsize=8)
        chart.tight_layout()
        written.append(directory / f"bench-{picture}.png")
        chart.savefig(written[-1], dpi=120)
    return written
