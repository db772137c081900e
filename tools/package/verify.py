#!/usr/bin/env python3
"""Verifies a package: its size, its symbols and libraries, and that it runs in minimal installations of the supported
distributions. Prints a table; exit status 1 if a check failed."""
import argparse
import dataclasses
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import elf_check
import roots

PASSED, FAILED, SKIPPED = "passed", "FAILED", "SKIPPED"
MIB = 1024 * 1024
BLOCK_BYTES = 1024 * 1024
COMMAND_TIMEOUT_S = 60
LAB_TIMEOUT_S = 180
# Commands in an installation, and what their output contains.
COMMANDS = {
    "mccsctl --version": r"\d+\.\d+\.\d+",
    "mccsd --help": r"--config",
    "mccs-controller --help": r"--config",
}
LAB = """
set -e
trap '/opt/mccs/bin/mccs-lab down >/dev/null 2>&1' EXIT
/opt/mccs/bin/mccs-lab up --hosts 2 --gpus 2
/opt/mccs/bin/mccs-lab exec h0 -- /opt/mccs/bin/mccsctl get hosts
/opt/mccs/bin/mccs-lab run -- /opt/mccs/bin/collective_perf --op all_reduce --min 1K --max 1M --factor 32 --iters 5
"""
# collective_perf has checked every element.
LAB_OUTPUT = r"# Out of bounds values : 0 OK"
LAB_FIGURE = r"# Avg bus bandwidth\s*: (\S+)"
RHEL = ("no installation is at hand: debootstrap makes only those of Debian and Ubuntu; pass one with "
        "--root DIRECTORY. The check of the symbols is the proof for its glibc 2.34")


@dataclasses.dataclass
class Result:
    check: str
    result: str
    figure: str


def check_archive(archive, max_mib):
    size = archive.stat().st_size / MIB
    yield Result("size", PASSED if size <= max_mib else FAILED, f"{size:.1f} MiB of at most {max_mib} MiB")
    digest = hashlib.sha256()
    with archive.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    hash_file = archive.with_name(archive.name + ".sha256")
    expected = hash_file.read_text().split() if hash_file.is_file() else []
    agrees = expected == [digest.hexdigest(), archive.name]
    yield Result("hash", PASSED if agrees else FAILED, f"{digest.hexdigest()[:16]}…" if agrees else
                 f"{hash_file.name} does not have this archive's hash")


def unpack(archive, directory):
    """Unpacks into the directory; returns the only directory of the archive."""
    with subprocess.Popen(["zstd", "--decompress", "--stdout", "--quiet", archive], stdout=subprocess.PIPE) as zstd:
        with tarfile.open(fileobj=zstd.stdout, mode="r|") as tar:
            tar.extractall(directory)
    if zstd.returncode != 0:
        raise OSError(f"zstd cannot decompress {archive}")
    content = list(directory.iterdir())
    if len(content) != 1:
        raise OSError(f"{archive} has {len(content)} entries at its top, expected one directory")
    return content[0]


def check_files(package):
    checked = elf_check.check(package)
    wrong = [(file, problems) for file, problems in checked if problems]
    for file, problems in wrong:
        for problem in problems:
            print(f"verify: {file.path.relative_to(package)} {problem}")
    newest = max((file.versions.get("GLIBC", ()) for file, _ in checked), default=())
    figure = f"{len(checked)} files, newest symbol GLIBC_{'.'.join(map(str, newest))}"
    if wrong:
        figure += f"; {len(wrong)} break a rule: {', '.join(file.path.name for file, _ in wrong)}"
    return Result("symbols and libraries", PASSED if checked and not wrong else FAILED, figure)


def run_check(name, root, package, command, pattern, timeout_s):
    """Returns the result and the command's output."""
    print(f"verify: {name}", flush=True)
    try:
        done = roots.run_in(root, package, command, timeout_s)
    except subprocess.TimeoutExpired:
        return Result(name, FAILED, f"did not end in {timeout_s} s"), ""
    if done.returncode == 0 and re.search(pattern, done.stdout):
        return Result(name, PASSED, ""), done.stdout
    print(done.stdout, end="")
    reason = f"exit status {done.returncode}" if done.returncode else f"no output like {pattern}"
    return Result(name, FAILED, f"{reason}; see above"), done.stdout


def check_root(name, root, package):
    for command, pattern in COMMANDS.items():
        result, _ = run_check(f"{name}: {command}", root, package, f"/opt/mccs/bin/{command}", pattern, COMMAND_TIMEOUT_S)
        yield result
    result, output = run_check(f"{name}: lab, all-reduce of 4 ranks", root, package, LAB, LAB_OUTPUT, LAB_TIMEOUT_S)
    if result.result == PASSED:
        found = re.search(LAB_FIGURE, output)
        result.figure = f"{float(found[1]):.3g} GB/s" if found else ""
    yield result


def check_roots(package, cache, given):
    for distribution in roots.DISTRIBUTIONS:
        try:
            print(f"verify: preparing {distribution.name}", flush=True)
            root = roots.make_root(distribution, cache)
            roots.check_machine()
        except roots.Unavailable as reason:
            yield Result(f"{distribution.name}: all", SKIPPED, str(reason))
            continue
        yield from check_root(distribution.name, root, package)
    for directory in given:
        yield from check_root(roots.name_of(directory), directory, package)
    if not any(roots.is_rhel_9(directory) for directory in given):
        yield Result("RHEL 9: all", SKIPPED, RHEL)


def print_table(results):
    width = max(len(result.check) for result in results)
    print(f"\n{'CHECK':{width}}  RESULT   FIGURE")
    for result in results:
        print(f"{result.check:{width}}  {result.result:7}  {result.figure}".rstrip())
    count = {kind: sum(result.result == kind for result in results) for kind in (PASSED, FAILED, SKIPPED)}
    print(f"{count[PASSED]} passed, {count[FAILED]} failed, {count[SKIPPED]} skipped")


def installation(text):
    directory = pathlib.Path(text)
    if not (directory / roots.RELEASE_FILE).is_file():
        raise argparse.ArgumentTypeError(f"invalid root \"{text}\": expected the directory of an installation, with the "
                                         f"file {roots.RELEASE_FILE}")
    return directory


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-mib", type=int, required=True, help="largest size of the archive")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="directory for installations, in roots/")
    parser.add_argument("--root", type=installation, action="append", default=[], metavar="DIRECTORY",
                        help="another installation to verify in")
    parser.add_argument("archive", type=pathlib.Path)
    options = parser.parse_args()
    results = list(check_archive(options.archive, options.max_mib))
    directory = pathlib.Path(tempfile.mkdtemp(prefix="mccs-package-"))
    try:
        package = unpack(options.archive, directory)
        results.append(check_files(package))
        results += check_roots(package, options.work / "roots", options.root)
    except (OSError, tarfile.TarError, subprocess.CalledProcessError) as error:
        print(f"verify: cannot verify {options.archive}: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print_table(results)
    return 1 if any(result.result == FAILED for result in results) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("verify: interrupted", file=sys.stderr)
        sys.exit(130)
