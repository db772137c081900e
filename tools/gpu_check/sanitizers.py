"""compute-sanitizer on the kernels."""
import re

from machine import sanitizer
from results import Failed, Skipped

TOOLS = ("memcheck", "racecheck")
FOUND = 86  # exit status of a program in which the tool has found an error
SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)")


def run_tool(check, path, tool, ranks, limit_s):
    program = [check.package.program("collective_perf"), "-b", 8, "-e", "1M", "-f", 64, "-n", 2, "-w", 0]
    command = [path, "--tool", tool, "--error-exitcode", FOUND, "--print-limit", 20, *program]
    # The tool preloads a library of its own.
    ended = check.run_ranks(f"{tool}-{ranks}", ranks, command, check.environment.mccs_by_path(), limit_s)
    found = SUMMARY.search(ended.output)
    if found:
        check.figure(f"{tool}, {ranks} {'rank' if ranks == 1 else 'processes'}: errors", int(found[1]))
    ended.expect()
    if not found:
        raise Failed(f"{tool} printed no summary; log: {ended.log}")
    return int(found[1])


def check_sanitizers(check):
    """memcheck and racecheck on short all-reduces."""
    if check.emulated:
        raise Skipped("the emulation has no machine code of kernels; scripts/test runs their host version under the "
                      "address sanitizer")
    path = sanitizer()
    if path is None:
        raise Skipped("compute-sanitizer is not installed; it is part of the CUDA toolkit")
    check.service.require(check.environment.cuda())
    for tool in TOOLS:
        for ranks in (1, 2):
            check.attempt(f"{tool}, {ranks}", run_tool, check, path, tool, ranks, 20)
    return ", ".join(map(str, check.figures))
