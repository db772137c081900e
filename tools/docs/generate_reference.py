#!/usr/bin/env python3
"""Writes the generated pages of docs/reference/ from the programs in build/bin.

Usage: tools/docs/generate_reference.py [--check]

  --check  write nothing; print which pages differ, with exit status 1 if any does

Starts a lab of two hosts for some seconds, for the metrics. Requires a complete build (scripts/build). Exit status: 0
the pages are current; 1 they differ (--check), or a key has no meaning in tools/docs/meanings.txt.
"""
import contextlib
import difflib
import os
import pathlib
import signal
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cli_help  # noqa: E402
import error_page  # noqa: E402
import key_pages  # noqa: E402
import metrics_page  # noqa: E402

PAGES = ROOT / "docs/reference"


def command_pages(programs):
    return {f"{name}.md": cli_help.page(cli_help.read_command(programs / name)) for name in cli_help.PROGRAMS}


def pages_of_keys(programs):
    """REQUIRES: every key has a meaning."""
    keys, policies = key_pages.read_keys(programs)
    meanings = key_pages.read_meanings()
    differences = key_pages.find_differences(keys, meanings)
    if differences:
        raise ValueError("\n".join(differences))
    return {"configuration.md": key_pages.configuration_page(keys, meanings),
            "objects.md": key_pages.objects_page(keys, policies, meanings)}


def pages_of_errors():
    return {"errors.md": error_page.page(ROOT)}


def page_of_metrics():
    """Scrapes a lab in which a job waits for a rank, then for a daemon, and an object was applied."""
    sys.path.insert(0, str(ROOT / "tests/e2e"))
    import lab_world
    with lab_world.Lab(hosts=2, gpus=1, name="reference") as lab:
        lab.exec("h0", lab_world.program("mccsctl"), "drain", "host", "h1", "--reason", "reference")
        with lab.start(lab_world.program("tests/steady_job"), "--seconds", 120) as job:
            if not job.has_printed("running", times=2):
                raise RuntimeError(f"steady_job did not run:\n{job.output}\n{lab.logs()}")
            daemons = lab.daemons()
            texts = {"mccsd": {}, "mccs-controller": {}}

            def complete(*excepted):
                for program, daemon in (("mccsd", "h0"), ("mccs-controller", "controller")):
                    now = metrics_page.families_of(metrics_page.scrape(daemons[daemon]["metrics"]))
                    # A series of the rank is gone when the job waits for the daemon.
                    texts[program] = {name: family if family.samples else texts[program].get(name, family)
                                      for name, family in now.items()}
                return set(missing(texts)) <= set(excepted)
            for pid, excepted in ((job.ranks()[1], ["mccs_awaited_hosts"]), (daemons["h1"]["pid"], [])):
                with stopped(pid):
                    if not lab_world.eventually(lambda: complete(*excepted), timeout=60):
                        raise RuntimeError(f"metrics without any series: {missing(texts)}")
    return {"metrics.md": metrics_page.page(texts)}


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def missing(families):
    return [name for found in families.values() for name, family in found.items() if not family.samples]


def all_pages(programs):
    return command_pages(programs) | pages_of_keys(programs) | pages_of_errors() | page_of_metrics()


def difference(name, text):
    """A diff from the committed page to `text`; empty if they are equal."""
    path = PAGES / name
    committed = path.read_text() if path.exists() else ""
    return "".join(difflib.unified_diff(committed.splitlines(True), text.splitlines(True),
                                        f"docs/reference/{name} (committed)", f"docs/reference/{name} (generated)"))


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__.strip())
        return 0 if sys.argv[1:] in (["--help"], ["-h"]) else 2
    try:
        pages = all_pages(ROOT / "build/bin")
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    different = {name: text for name, text in pages.items() if difference(name, text)}
    for name, text in different.items():
        if sys.argv[1:] == ["--check"]:
            print(difference(name, text), end="")
        else:
            (PAGES / name).write_text(text)
            print(f"reference: wrote docs/reference/{name}")
    print(f"reference: {len(pages)} pages, {len(different)} of them changed")
    return 1 if different and sys.argv[1:] == ["--check"] else 0


if __name__ == "__main__":
    sys.exit(main())
