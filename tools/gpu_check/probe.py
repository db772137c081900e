"""cuda_probe: whether CUDA behaves as MCCS assumes."""
import json

from results import Failed

RESERVE_S = 4  # for the end of cuda_probe after its own limit


def run_probe(check, log, limit_s, only=()):
    """Returns the checks by name."""
    path = check.processes.logs / f"{log}.json"
    limit_s = check.deadline.limit_of(limit_s)
    command = [check.package.program("cuda_probe"), "--json", path, "--limit", max(1, int(limit_s - RESERVE_S))]
    for name in only:
        command += ["--only", name]
    ended = check.run(log, command, check.environment.cuda(), limit_s)
    if not path.exists():
        ended.expect()
        raise Failed(f"cuda_probe wrote no results; log: {ended.log}")
    return {one["name"]: one for one in json.loads(path.read_text())["checks"]}


def check_probe(check):
    """Runs cuda_probe. A wrong assumption is a failure."""
    checks = run_probe(check, "cuda_probe", check.deadline.left())
    by_outcome = {"PASS": [], "FAIL": [], "SKIP": []}
    for one in checks.values():
        by_outcome[one["outcome"]].append(one)
    for outcome, unit in (("PASS", "passed"), ("FAIL", "failed"), ("SKIP", "skipped")):
        check.figure(f"checks {unit}", len(by_outcome[outcome]))
    for one in by_outcome["SKIP"]:
        check.note(f"SKIPPED {one['name']}: {one['text']}")
    for one in by_outcome["PASS"]:
        if one["text"]:
            check.notes.append(f"{one['name']}: {one['text']}")
    for one in by_outcome["FAIL"]:
        check.problems.append(f"{one['name']}: {one['text']}")
    if not checks:
        raise Failed("cuda_probe ran no check")
    return f"{len(by_outcome['PASS'])} passed, {len(by_outcome['FAIL'])} failed, {len(by_outcome['SKIP'])} skipped"
