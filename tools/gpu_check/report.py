"""The table for people and the JSON for programs."""
import json
import os

from results import FAILED, PASSED, SKIPPED

WIDTH = 160


def first_line(text):
    lines = [" ".join(line.split()) for line in text.strip().splitlines()] or [""]
    return lines[0] if len(lines[0]) <= WIDTH else lines[0][:WIDTH - 1] + "…"


def table(results):
    """A line for each part: name, result, seconds, figure or reason."""
    width = max([len("PART"), *(len(result.part) for result in results)])
    lines = [f"{'PART':{width}}  RESULT   SECONDS  FIGURE"]
    lines += [f"{one.part:{width}}  {one.result:7}  {one.seconds:7.1f}  {first_line(one.text)}".rstrip()
              for one in results]
    count = {kind: sum(one.result == kind for one in results) for kind in (PASSED, FAILED, SKIPPED)}
    lines.append(f"{count[PASSED]} passed, {count[FAILED]} failed, {count[SKIPPED]} skipped")
    return "\n".join(lines)


def as_json(results, machine, package, options):
    return {"machine": machine, "package": package, "options": options,
            "seconds": round(sum(one.seconds for one in results), 1),
            "parts": [one.as_json() for one in results]}


def write(path, text):
    """Replaces the file at once, so that a reader never sees half of it."""
    unfinished = path.with_name(path.name + ".partial")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)


def write_json(path, *content):
    write(path, json.dumps(as_json(*content), indent=1) + "\n")


def exit_status(results):
    return 1 if any(one.result == FAILED for one in results) else 0
