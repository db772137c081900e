#!/usr/bin/env python3
"""Compares what the emulated libraries export with NVIDIA's own.

usage: symbols_test.py LIST EMULATED ORIGINAL VERSION

LIST is the repository's list of names, EMULATED our library, ORIGINAL the toolkit's (if it is missing, the
comparison is skipped with a message), VERSION the version of every symbol or '-' for none.
"""

import os
import subprocess
import sys


def exported(path):
    """Names of functions mapped to their versions."""
    out = subprocess.run(
        ["nm", "-D", "--defined-only", "--with-symbol-versions", path],
        check=True, capture_output=True, text=True).stdout
    result = {}
    for line in out.splitlines():
        kind, symbol = line.split()[-2:]
        if kind in "TWti":
            name, _, version = symbol.partition("@@")
            result[name] = version or "-"
    return result


def complain(what, names):
    if names:
        print(f"{what}: {' '.join(sorted(names))}")
    return bool(names)


def main():
    list_path, emulated_path, original_path, version = sys.argv[1:]
    with open(list_path, encoding="utf-8") as file:
        listed = set(file.read().split())
    emulated = exported(emulated_path)
    ours = {name for name in emulated if not name.startswith("mccsEmulation")}
    bad = complain("listed, but not exported by the emulation", listed - ours)
    bad |= complain("exported by the emulation, but not listed", ours - listed)
    bad |= complain(f"with a version other than {version}",
                    {name for name in ours if emulated[name] != version})
    if os.path.exists(original_path):
        original = {name for name in exported(original_path) if name.lstrip("_").startswith("cu")}
        bad |= complain("exported by the original, but not listed", original - listed)
        bad |= complain("listed, but not exported by the original", listed - original)
    else:
        print(f"skipped the comparison: {original_path} does not exist")
    print(f"{len(listed)} names: {'differences' if bad else 'the same'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
