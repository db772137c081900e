"""Table reconfigure: a background flow takes a spine's links; the operator's policy then moves the job's flows while it
runs; finally the policy changes the ring."""
import subprocess
import sys
import time

from fabric import BIN, LIBRARY_ORDER, MIB, end, steps_of

SIZE = MIB
# All flows of the job start here; the other spine is idle.
CROWDED = ["leaf0-spine0", "leaf1-spine0"]
OTHER = ["leaf0-spine1", "leaf1-spine1"]
# One flow per direction, between NICs that the job does not use: (host, address, host, address).
BACKGROUND = (("h3", "10.0.1.4", "h1", "10.0.0.2"), ("h5", "10.0.0.4", "h2", "10.0.1.2"))
SOURCE_PORT = 61500  # over spine0, by the fabric's port rules
# Reversed, and with other adjacent hosts.
OTHER_RING = ["h5", "h3", "h2", "h1"]
PHASES = ("alone", "beside the background flow", "moved", "another ring")

# Send and receive over one connection until they are terminated.
SENDER = """
import socket, sys
to, port, source, source_port = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
connection = socket.socket()
connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
connection.bind((source, source_port))
connection.connect((to, port))
while True:
    connection.sendall(bytes(65536))
"""
RECEIVER = """
import socket, sys
listener = socket.create_server(("", int(sys.argv[1])))
print("listening", flush=True)
connection = listener.accept()[0]
while connection.recv(65536):
    pass
"""
PORT = 9100


class Background:
    """Flows that do not belong to a tenant of MCCS."""

    def __init__(self, fabric):
        self.processes = []
        for source, source_address, target, address in BACKGROUND:
            receiver = self._start(fabric, target, RECEIVER, PORT, stdout=subprocess.PIPE)
            receiver.stdout.readline()
            self._start(fabric, source, SENDER, address, PORT, source_address, SOURCE_PORT)

    def _start(self, fabric, host, program, *arguments, **options):
        self.processes.append(subprocess.Popen(
            [str(a) for a in (BIN / "mccs-lab", "exec", "--name", fabric.lab, host, "--", "env", "-u", "LD_PRELOAD",
                              sys.executable, "-c", program, *arguments)],
            stderr=subprocess.DEVNULL, **options))
        return self.processes[-1]


def avoiding(links, **parameters):
    return {"type": "fair_flow", "parameters": {"avoid_links": links, **parameters}}


def run(fabric, options, report):
    fabric.apply(avoiding(OTHER))
    job = fabric.training("a", LIBRARY_ORDER, 1, 0, SIZE, 0)
    background = None
    try:
        time.sleep(4)
        begun = time.monotonic()
        time.sleep(options.seconds)
        background = Background(fabric)
        crowded = time.monotonic()
        time.sleep(options.seconds)
        fabric.apply(avoiding(CROWDED))
        moved = time.monotonic()
        time.sleep(options.seconds)
        fabric.apply(avoiding(CROWDED, order=OTHER_RING))
        turned = time.monotonic()
        time.sleep(options.seconds)
        ended = time.monotonic()
    finally:
        output, = end([job])
        if background is not None:
            end(background.processes)
    steps = [(when - begun, took) for when, took in steps_of(output) if begun <= when <= ended]
    marks = [0, crowded - begun, moved - begun, turned - begun, ended - begun]
    # Ignore the first second after each change.
    phases = [[took for when, took in steps if low + 1 <= when - took and when <= high]
              for low, high in zip(marks, marks[1:])]
    if min(map(len, phases)) < 3:
        raise RuntimeError(f"too few steps: {[len(phase) for phase in phases]}\n{output}")
    rates = [SIZE * len(phase) / sum(phase) / 1e6 for phase in phases]
    report(f"{len(steps)} steps")

    def longest_after(mark):
        return max((took for when, took in steps if mark <= when <= mark + 5), default=0)

    return [{"table": "reconfigure", "bytes": SIZE, "steps": steps, "marks_s": marks,
             "megabytes_per_s": dict(zip(PHASES, rates)),
             "longest_step_s": {"crowded": max(phases[1]), "after move": longest_after(marks[2]),
                                "before turn": max(phases[2]), "after turn": longest_after(marks[3])}}]


def text(figures):
    figure, = figures
    lines = [f"all-reduce of {figure['bytes'] // MIB} MiB over {len(LIBRARY_ORDER)} hosts, algbw in MB/s"]
    for phase, rate in figure["megabytes_per_s"].items():
        lines.append(f"{phase:<28} {rate:6.2f}")
    rates = figure["megabytes_per_s"]
    longest = figure["longest_step_s"]
    lines.append(f"after the move: {100 * rates['moved'] / rates['alone']:.0f} % of the rate alone; longest step within 5 s of the "
                 f"move, including the one during it: {1e3 * longest['after move']:.0f} ms; beside the background flow: "
                 f"{1e3 * longest['crowded']:.0f} ms")
    lines.append(f"after the change of the ring: {100 * rates['another ring'] / rates['moved']:.0f} % of the rate before it; longest step "
                 f"within 5 s of the change: {1e3 * longest['after turn']:.0f} ms; before it: {1e3 * longest['before turn']:.0f} ms")
    return "\n".join(lines)


def draw(figures, pyplot):
    figure, = figures
    chart, axis = pyplot.subplots(figsize=(8, 4))
    axis.plot([when for when, _ in figure["steps"]], [figure["bytes"] / took / 1e6 for _, took in figure["steps"]],
              drawstyle="steps-post")
    for at, what in zip(figure["marks_s"][1:4], ("background flow starts", "flows are moved", "ring is changed")):
        axis.axvline(at, color="grey", linestyle="--")
        axis.text(at, 0, f" {what}", rotation=90, va="bottom", fontsize=8)
    axis.set(xlabel="seconds", ylabel="algbw of each step, MB/s", title="Changes of routes and of the ring under load", ylim=(0, None))
    return chart
