#!/usr/bin/env python3
"""Draws the pictures of the concept pages: docs/pictures/*.svg.

Each picture has a light background of its own, so that it is readable in the light and the dark mode of the site.
Usage: tools/docs/draw_pictures.py [DIRECTORY]
"""
import pathlib
import sys
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parents[2]
INK, SOFT, LINE = "#1f2430", "#5b6475", "#8a93a6"
BLUE, GREEN, ORANGE, VIOLET, GREY = "#dbe7fb", "#dcf1e2", "#fdebd3", "#e9e1fa", "#eceff4"


class Picture:
    def __init__(self, name, width, height, description):
        self.name, self.width, self.height = name, width, height
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" font-family="system-ui, sans-serif" font-size="14">',
            f"<title>{escape(description)}</title>",
            '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
            f'orient="auto-start-reverse"><path d="M0 0 L10 5 L0 10 z" fill="{SOFT}"/></marker></defs>',
            f'<rect width="{width}" height="{height}" rx="12" fill="#ffffff" stroke="{LINE}"/>',
        ]

    def text(self, x, y, words, anchor="middle", color=INK, bold=False, size=14):
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{color}" font-size="{size}"{weight}>'
                          f"{escape(words)}</text>")

    def box(self, x, y, width, height, title, lines=(), fill=BLUE):
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{fill}" '
                          f'stroke="{LINE}"/>')
        top = y + (height - 18 * len(lines)) / 2 + 5
        self.text(x + width / 2, top, title, bold=True)
        for i, line in enumerate(lines):
            self.text(x + width / 2, top + 18 * (i + 1), line, color=SOFT, size=12.5)

    def frame(self, x, y, width, height, title):
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="10" fill="none" '
                          f'stroke="{LINE}" stroke-dasharray="5 4"/>')
        self.text(x + 12, y + 20, title, anchor="start", color=SOFT, size=12.5)

    def arrow(self, points, label="", at=None, anchor="middle", both=False, dashed=False):
        path = "M" + " L".join(f"{x} {y}" for x, y in points)
        start = ' marker-start="url(#tip)"' if both else ""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(f'<path d="{path}" fill="none" stroke="{SOFT}" stroke-width="1.6"{dash}{start} '
                          'marker-end="url(#tip)"/>')
        if label:
            (x1, y1), (x2, y2) = points[0], points[-1]
            x, y = at or ((x1 + x2) / 2, (y1 + y2) / 2 - 7)
            self.text(x, y, label, anchor=anchor, color=SOFT, size=12.5)

    def bar(self, x, y, width, height, fill, label=""):
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}" stroke="{LINE}"/>')
        if label:
            self.text(x + width / 2, y + height / 2 + 5, label, size=12.5)

    def line(self, x1, y1, x2, y2, dashed=False):
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(f'<path d="M{x1} {y1} L{x2} {y2}" stroke="{LINE}" stroke-width="1.6"{dash}/>')

    def save(self, directory):
        (directory / f"{self.name}.svg").write_text("\n".join(self.parts) + "\n</svg>\n")


def call_path():
    p = Picture("call-path", 900, 400, "The path of a call: program, shim, work ring, engine, lanes to the other host")
    p.frame(20, 20, 400, 130, "process of a tenant")
    p.box(40, 55, 170, 75, "program", ["ncclAllReduce(…, stream)"], GREEN)
    p.box(250, 55, 150, 75, "shim", ["libnccl.so.2"], GREEN)
    p.arrow([(210, 92), (250, 92)], "1")
    p.frame(20, 200, 600, 180, "")
    p.text(120, 220, "daemon mccsd, one engine thread", anchor="start", color=SOFT, size=12.5)
    p.box(40, 240, 120, 110, "frontend", ["checks records", "and buffers"])
    p.box(190, 240, 140, 110, "communicator", ["orders operations", "selects a plan"])
    p.box(360, 240, 110, 110, "executor", ["runs the plan"])
    p.box(500, 240, 105, 48, "device", fill=ORANGE)
    p.box(500, 302, 105, 48, "lanes", fill=ORANGE)
    p.arrow([(290, 130), (290, 175), (100, 175), (100, 240)], "2  work ring, ready words", (195, 169))
    p.arrow([(160, 295), (190, 295)], "3")
    p.arrow([(330, 295), (360, 295)], "4")
    p.arrow([(470, 270), (500, 264)])
    p.arrow([(470, 320), (500, 326)])
    p.box(695, 240, 190, 110, "mccsd of a peer host", ["reads slices straight into", "the tenant's output"])
    p.arrow([(605, 326), (695, 326)], "5  slices", both=False)
    p.arrow([(695, 345), (605, 345)], "credit", (652, 362))
    p.box(500, 55, 380, 75, "buffers of the tenant", ["mapped by the daemon: read and written in place"], GREY)
    p.arrow([(552, 240), (552, 130)], "combine", (560, 185), anchor="start", both=True)
    p.arrow([(415, 240), (415, 165), (330, 165), (330, 130)], "6  done word", (425, 185), anchor="start", dashed=True)
    return p


def forming():
    p = Picture("forming", 900, 390, "Forming of a communicator, and a change of its strategy from epoch 1 to epoch 2")
    steps = [("unique id", ["a daemon's", "address, a secret"]), ("rendezvous", ["all ranks join"]),
             ("roster", ["hosts and ranks"]), ("star", ["links of all", "to the leader"]),
             ("strategy", ["controller's", "or the default"]), ("lanes", ["per channel, to", "the next host"]),
             ("go", ["init returns"])]
    x = 20
    for i, (title, lines) in enumerate(steps):
        p.box(x, 50, 108, 84, title, lines, GREEN if i in (0, 6) else BLUE)
        if i:
            p.arrow([(x - 17, 92), (x, 92)])
        x += 125
    p.text(20, 35, "Forming", anchor="start", bold=True)
    p.text(20, 180, "A change of strategy while the job runs", anchor="start", bold=True)
    for row, host in enumerate(("h0", "h1")):
        y = 205 + 55 * row
        p.text(30, y + 22, host, anchor="start", color=SOFT)
        for i in range(8):
            p.bar(70 + 62 * i, y, 58, 34, BLUE, f"#{i + 11}")
        p.bar(640, y, 58, 34, ORANGE, "#19")
        p.bar(702, y, 58, 34, ORANGE, "#20")
        p.bar(764, y, 58, 34, ORANGE, "#21")
    p.line(600, 195, 600, 305, dashed=True)
    p.text(600, 322, "boundary: operation #18", color=SOFT, size=12.5)
    p.text(320, 345, "epoch 1: old rings and lanes", color=SOFT)
    p.text(730, 345, "epoch 2: new rings and lanes", color=SOFT)
    p.text(450, 372, "The new lanes open before the boundary. No operation runs under two epochs.", color=SOFT)
    return p


def strategy():
    p = Picture("strategy", 900, 420, "A strategy: ring order, algorithm, channels and routes of four hosts in two racks")
    p.frame(30, 230, 390, 170, "rack r0")
    p.frame(480, 230, 390, 170, "rack r1")
    hosts = {"h1": 60, "h5": 250, "h2": 510, "h3": 700}
    for name, x in hosts.items():
        p.box(x, 320, 140, 60, name, ["2 GPUs, 2 NICs"], GREEN)
    for name, x in (("leaf0", 155), ("leaf1", 605)):
        p.box(x, 258, 140, 34, name, fill=GREY)
    for name, x in (("spine0", 250), ("spine1", 510)):
        p.box(x, 110, 140, 34, name, fill=GREY)
    for a in (225, 675):
        for s in (320, 580):
            p.line(a, 258, s, 144)
    for leaf, xs in ((225, (130, 320)), (675, (580, 770))):
        for x in xs:
            p.line(leaf, 292, x, 320)
    p.arrow([(200, 360), (250, 360)])
    p.arrow([(390, 365), (510, 365)])
    p.arrow([(650, 360), (700, 360)])
    p.arrow([(770, 380), (770, 408), (130, 408), (130, 380)])
    p.text(450, 352, "ring, channel 0", color=SOFT, size=12.5)
    p.text(30, 36, "ring order: rack by rack, so that the ring crosses the spines twice", anchor="start")
    p.text(30, 60, "algorithm: ring, tree, direct, pat or grid, selected per call by size and costs", anchor="start")
    p.text(30, 84, "channels: independent rings; a route (NIC, source port) per lane selects leaf0–spine1–leaf1 or "
           "leaf0–spine0–leaf1", anchor="start")
    return p


def rates():
    p = Picture("rates", 900, 430, "Rates: shares of a link, priority classes and send windows")
    p.text(30, 36, "One link of 50 Gbit/s: weights and guarantees", anchor="start", bold=True)
    p.bar(30, 52, 480, 44, BLUE, "team-a: guarantee 30 Gbit/s")
    p.bar(510, 52, 225, 44, GREEN, "team-b: weight 2")
    p.bar(735, 52, 112, 44, ORANGE, "team-c: weight 1")
    p.bar(847, 52, 23, 44, GREY)
    p.text(870, 114, "headers, reserve", anchor="end", color=SOFT, size=12.5)
    p.text(30, 150, "The gate of each lane, in the daemon", anchor="start", bold=True)
    p.box(30, 168, 120, 60, "lane", ["has data"], GREEN)
    p.box(200, 168, 150, 60, "rate of the lane", ["share of the link"])
    p.box(400, 168, 150, 60, "rate of the tenant", ["cap, per NIC"])
    p.box(600, 168, 120, 60, "class", ["priority 0 to 7"], VIOLET)
    p.box(770, 168, 100, 60, "network", ["DSCP"], GREY)
    for a, b in ((150, 200), (350, 400), (550, 600), (720, 770)):
        p.arrow([(a, 198), (b, 198)])
    p.text(30, 268, "Send windows: another tenant sends while the favoured job computes", anchor="start", bold=True)
    p.text(30, 307, "favoured job", anchor="start", color=SOFT, size=12.5)
    p.text(30, 357, "other job", anchor="start", color=SOFT, size=12.5)
    for i in range(4):
        x = 140 + 185 * i
        p.bar(x, 287, 60, 32, ORANGE, "burst")
        p.bar(x + 64, 337, 108, 32, BLUE, "window")
    p.arrow([(140, 388), (325, 388)], "period", (232, 408), both=True)
    return p


def memory():
    p = Picture("memory", 900, 360, "Memory: registration, mapping, use and release of a buffer")
    p.frame(20, 20, 860, 140, "process of a tenant")
    p.box(40, 55, 150, 84, "cudaMalloc", ["an allocation"], GREEN)
    p.box(230, 55, 180, 84, "first call", ["the shim exports the", "allocation: a descriptor"], GREEN)
    p.box(450, 55, 180, 84, "later calls", ["the buffer id", "in each record"], GREEN)
    p.box(670, 55, 190, 84, "cudaFree", ["seen by the free hooks", "before it happens"], GREEN)
    p.frame(20, 220, 860, 120, "daemon")
    p.box(230, 250, 180, 70, "mapping", ["whole allocation, by", "threads of its own"])
    p.box(450, 250, 180, 70, "operations", ["read and write in place"])
    p.box(670, 250, 190, 70, "release", ["after the last operation", "that uses it"])
    p.arrow([(190, 97), (230, 97)])
    p.arrow([(410, 97), (450, 97)])
    p.arrow([(630, 97), (670, 97)])
    p.arrow([(300, 139), (300, 250)], "register", (292, 198), anchor="end")
    p.arrow([(340, 250), (340, 139)], "mapped", (348, 198), anchor="start")
    p.arrow([(540, 139), (540, 250)], "records", (532, 198), anchor="end")
    p.arrow([(740, 139), (740, 250)], "release", (732, 198), anchor="end")
    p.arrow([(790, 250), (790, 139)], "released", (798, 198), anchor="start")
    p.arrow([(410, 285), (450, 285)])
    p.arrow([(630, 285), (670, 285)])
    return p


def main():
    directory = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs/pictures")
    directory.mkdir(parents=True, exist_ok=True)
    for picture in (call_path(), forming(), strategy(), rates(), memory()):
        picture.save(directory)


if __name__ == "__main__":
    main()
