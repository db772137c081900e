"""The page of metrics, from what the programs serve at /metrics."""
import re
import urllib.request

TIMEOUT_S = 60
# Labels with a fixed set of values, which the page lists.
CLOSED = ("state", "reason", "direction", "result")
SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*?)(_bucket|_sum|_count)?(?:\{(.*)\})? \S+$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Family:
    def __init__(self):
        self.help = self.type = ""
        self.labels = {}  # name: values
        self.samples = 0


def scrape(endpoint):
    with urllib.request.urlopen(f"http://{endpoint}/metrics", timeout=TIMEOUT_S) as answer:
        return answer.read().decode()


def families_of(text):
    """{name: Family} of the text format, without the exposer's own."""
    families = {}
    for line in text.splitlines():
        comment = re.match(r"# (HELP|TYPE) (\S+) (.*)", line)
        if comment:
            setattr(families.setdefault(comment[2], Family()), comment[1].lower(), comment[3])
            continue
        sample = SAMPLE.match(line)
        if not sample:
            continue
        # A counter may end in "_count", too.
        family = families[sample[1] if sample[1] in families else sample[1] + (sample[2] or "")]
        family.samples += 1
        for label, value in LABEL.findall(sample[3] or ""):
            family.labels.setdefault(label, []).append(value)
    return {name: family for name, family in families.items() if name.startswith("mccs_")}


def labels_text(family):
    parts = []
    for label, values in family.labels.items():
        shown = ", ".join(dict.fromkeys(values)) if label in CLOSED else ""
        parts.append(f"`{label}`" + (f": {shown}" if shown else ""))
    return "; ".join(parts)


def page(families):
    """families: {program: {name: Family}}."""
    lines = ["# Metrics", "", "This page is for operators who write queries and alerts. It is generated from what the "
             "programs serve at `/metrics`. To enable them, see [Collect metrics](../operators/metrics.md).", "",
             "`tenant` is the name of a Tenant or, without one, the daemon's name for the process. Rates and times are "
             "in base units: bytes, seconds.", ""]
    for program, found in families.items():
        lines += [f"## {program}", "", "| metric | type | labels | meaning |", "|---|---|---|---|"]
        lines += [f"| `{name}` | {family.type} | {labels_text(family)} | {family.help} |"
                  for name, family in found.items()] + [""]
    return "\n".join(lines)
