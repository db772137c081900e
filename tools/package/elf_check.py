#!/usr/bin/env python3
"""Checks that the programs and libraries of a directory run on every supported distribution.

For each ELF file: the symbol versions that it needs are at most those of LIMITS, and each library that it needs is
glibc's or found by a run path within the directory. It executes none of them, so it needs only readelf (binutils).
"""
import argparse
import dataclasses
import pathlib
import re
import subprocess
import sys

# The newest symbol version that a file may need, by the prefix of the version. The first is that of RHEL 9, the oldest
# glibc of the supported distributions. The C++ runtime is linked statically.
LIMITS = {"GLIBC": (2, 34), "GLIBCXX": None, "CXXABI": None, "GCC": None}
GLIBC = {"ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1"}
# Libraries of the CUDA driver and toolkit: the user's LD_LIBRARY_PATH decides between them and the emulation, in
# EMULATION.
CUDA = {"libcuda.so.1", "libcudart.so.13", "libnvidia-ml.so.1"}
EMULATION = "lib/emulation"
# Names of functions in an error message.
NAMES_SHOWN = 5
# Programs load these into their own process, so they bring nothing along.
STANDALONE = {"libnccl.so.2", "libmccs-free-hooks.so"}


@dataclasses.dataclass
class ElfFile:
    path: pathlib.Path
    needed: list
    run_path: list  # directories, with $ORIGIN resolved
    inherited: bool  # DT_RPATH: the run path also applies to libraries of this program
    versions: dict  # prefix of a symbol version -> the newest one needed, as a tuple of numbers

    def newest(self, prefix):
        return ".".join(map(str, self.versions[prefix])) if prefix in self.versions else "none"


def is_elf(path):
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def read_elf(path):
    """Raises OSError without readelf, subprocess.CalledProcessError if the file is damaged."""
    text = subprocess.run(["readelf", "--wide", "--dynamic", "--version-info", path], check=True, capture_output=True,
                          text=True).stdout
    needed = re.findall(r"\(NEEDED\)\s+Shared library: \[(.*)\]", text)
    kinds = re.findall(r"\((RPATH|RUNPATH)\)\s+Library \w+: \[(.*)\]", text)
    run_path = [pathlib.Path(entry.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", str(path.parent)))
                for _, entries in kinds for entry in entries.split(":") if entry]
    versions = {}
    # Only the section of needed versions, not that of the versions that a library defines.
    for section in re.findall(r"^Version needs section.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL):
        for prefix, numbers in re.findall(r"Name: ([A-Z]+)_([0-9.]+)", section):
            version = tuple(map(int, numbers.split(".")))
            versions[prefix] = max(version, versions.get(prefix, version))
    return ElfFile(path, needed, run_path, ("RPATH" in dict(kinds)), versions)


def symbols_newer_than(file, prefix, limit):
    """Names of the functions that need a newer version, for the error message."""
    text = subprocess.run(["readelf", "--wide", "--dyn-syms", file.path], check=True, capture_output=True,
                          text=True).stdout
    found = set()
    for name, numbers in re.findall(rf"UND (\S+)@{prefix}_([0-9.]+)", text):
        if limit is None or tuple(map(int, numbers.split("."))) > limit:
            found.add(name)
    return sorted(found)


def problems_of(file, files, root):
    """The rules that `file` breaks, as messages. `files`: all ELF files of the directory `root`."""
    problems = []
    for prefix, limit in LIMITS.items():
        newest = file.versions.get(prefix)
        if newest is not None and (limit is None or newest > limit):
            allowed = "none" if limit is None else f"at most {prefix}_{'.'.join(map(str, limit))}"
            names = symbols_newer_than(file, prefix, limit)
            more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
            problems.append(f"needs {prefix}_{file.newest(prefix)}, allowed is {allowed}: "
                            f"{', '.join(names[:NAMES_SHOWN])}{more}")
    for directory in file.run_path:
        if not directory.resolve().is_relative_to(root.resolve()):
            problems.append(f"its run path {directory} is outside of the package")
    users = [other for other in files if other.inherited and file.path.name in other.needed]
    search = file.run_path + [directory for user in users for directory in user.run_path]
    for name in file.needed:
        if name in GLIBC:
            continue
        if file.path.name in STANDALONE:
            problems.append(f"needs {name}; it may need only glibc")
        elif name in CUDA:
            if not (root / EMULATION / name).is_file():
                problems.append(f"needs {name}, which {EMULATION}/ does not have")
        elif not any((directory / name).is_file() for directory in search):
            problems.append(f"needs {name}, which no run path of the package has")
    return problems


def check(root):
    """All ELF files under `root` with their problems: [(ElfFile, [message])]."""
    files = [read_elf(path) for path in sorted(root.rglob("*")) if is_elf(path)]
    return [(file, problems_of(file, files, root)) for file in files]


def main():
    parser = argparse.ArgumentParser(description="Checks that the ELF files of a directory run on every supported "
                                     "distribution: symbol versions, and libraries that they need. Exit status 1: "
                                     "one does not.")
    parser.add_argument("directory", type=pathlib.Path, help="the unpacked package")
    root = parser.parse_args().directory
    if not root.is_dir():
        sys.exit(f"elf_check: {root} is not a directory; unpack the package there")
    try:
        checked = check(root)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"elf_check: cannot read the files of {root}: {error}; is binutils installed?")
    if not checked:
        sys.exit(f"elf_check: {root} has no ELF file; unpack the package there")
    for file, problems in checked:
        print(f"{file.path.relative_to(root)}  GLIBC_{file.newest('GLIBC')}  {'FAILED' if problems else 'ok'}")
        for problem in problems:
            print(f"    {problem}")
    return 1 if any(problems for _, problems in checked) else 0


if __name__ == "__main__":
    sys.exit(main())
