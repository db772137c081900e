"""Compares the ratios of two runs of the suite."""
import json

TOLERANCE = 0.15


def load(path):
    """Rows by name, and the line about the run."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {line["row"]: line for line in lines if "row" in line}, next(line for line in lines if "machine" in line)


def is_beyond(before, now):
    """Whether no round was as good as the worst one before: on a busy machine, rounds of one version differ by more
    than the tolerance."""
    if now["higher_is_better"]:
        return now.get("max", now["median"]) < before.get("min", before["median"])
    return now.get("min", now["median"]) > before.get("max", before["median"])


def losses(kept, found):
    """Lines about the ratios of `found` that are worse than those of `kept` by more than TOLERANCE, and in all rounds;
    and the number of ratios compared."""
    lines, compared = [], 0
    for name, now in found.items():
        before = kept.get(name)
        if before is None or now["unit"] != "x" or "median" not in before or "median" not in now:
            continue
        compared += 1
        change = now["median"] / before["median"] if now["higher_is_better"] else before["median"] / now["median"]
        if change < 1 - TOLERANCE and is_beyond(before, now):
            lines.append(f"{name}: {before['median']:.2f} -> {now['median']:.2f} ({100 * (change - 1):+.0f} %)")
    return lines, compared
