#!/usr/bin/env python3
"""Checks the repository's rules: allowed includes, header guards, file length, leftovers."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
import cases  # noqa: E402

# Layers: the directories (or single headers) that a top-level directory may include besides itself.
MAY_INCLUDE = {
    "base": [],
    "proto": ["base"],
    "topology": ["base"],
    "trust": ["base"],
    # Only the kinds, types and operators of operations, no wire formats.
    "algorithms": ["base", "proto/operation.h"],
    # Compiled for GPUs, too: only plain numbers.
    "kernels": ["base", "proto/operation.h", "proto/shim_wire.h", "proto/fence_page.h", "algorithms/division.h",
                "algorithms/issue_cursor.h"],
    "service": ["base", "proto", "algorithms", "kernels",
                # Host discovery and locality order only, not the cluster's model.
                "topology/host_discovery.h", "topology/position.h",
                # The fields that switches hash, for probing paths.
                "topology/five_tuple.h",
                "trust",
                # Sharing of emulated allocations between processes.
                "emulation/include"],
    "shim": ["base", "proto", "kernels",
             # The interface through which libmccs-free-hooks reports frees.
             "free_hooks/listener.h"],
    "free_hooks": [],
    "controller": ["base", "proto", "topology", "algorithms", "trust"],
    "emulation": ["base", "proto/fence_page.h", "kernels"],
    "lab": ["base", "topology", "trust"],
    "tools": ["base", "proto", "trust"],
    "examples": [],
    # Benchmarks of many hosts run in the simulator.
    "bench": ["base", "proto", "topology", "algorithms", "kernels", "service", "shim", "controller", "emulation",
              "tests/sim", "tests/unit/transport/rdma"],
    "tests": ["base", "proto", "topology", "algorithms", "kernels", "service", "shim", "controller", "emulation",
              "lab", "tools", "bench", "free_hooks", "trust"],
}

# Layers within a directory, lowest first: a file includes its own layer and lower ones. The files directly in the
# directory are the last layer, which composes the others.
LAYERS = {
    "controller": ("objects", "store", "view", "policy", "state", "planning", "measurement", "rates", "coordinator",
                   "api"),
    "shim": ("include", "kernels", "config", "cuda", "daemon", "buffers", "submit", "process", "calls", "api"),
    "service/communicator": ("turns", "strategy", "links", "lanes", "membership", "schedule"),
}

# 100 to 300 lines are comfortable; a class that is one idea may be longer.
LINES_RECOMMENDED = 500
LINES_MAX = 1000

# Split strings, so that this file does not match itself.
LEFTOVERS = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")


def sources(*suffixes):
    """Tracked files, and new files that git does not ignore, with these suffixes."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"],
                            capture_output=True, text=True)
    if listed.returncode != 0:
        raise unittest.SkipTest("this tree is not a git repository; its files are not known")
    for name in sorted(set(listed.stdout.splitlines())):
        path = ROOT / name
        if path.suffix in suffixes and path.is_file():
            yield path


def top_directory_of(path):
    return path.relative_to(ROOT).parts[0]


def may_include(directory, header):
    if header.split("/")[0] == directory:
        return True
    return any(header == allowed or header.startswith(allowed + "/") for allowed in MAY_INCLUDE[directory])


class Includes(unittest.TestCase):
    def test_directories_include_only_lower_layers(self):
        pattern = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
        wrong = []
        for path in sources(".h", ".cc", ".cu", ".cuh"):
            for header in pattern.findall(path.read_text()):
                if header.split("/")[0] not in MAY_INCLUDE or "/" not in header:
                    continue  # not a header of this repository
                if not may_include(top_directory_of(path), header):
                    wrong.append(f"{path.relative_to(ROOT)} includes {header}")
        self.assertEqual(wrong, [], "see MAY_INCLUDE in this test")

    def test_layers_within_a_directory_include_only_lower_layers(self):
        pattern = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
        wrong = []
        for directory, layers in LAYERS.items():
            def height(name):
                inner = name[len(directory) + 1:].split("/")
                return layers.index(inner[0]) if len(inner) > 1 else len(layers)
            for path in sources(".h", ".cc", ".cu", ".S"):
                name = path.relative_to(ROOT).as_posix()
                if not name.startswith(directory + "/"):
                    continue
                self.assertIn(name.split("/")[directory.count("/") + 1], (*layers, path.name),
                              f"{name}: add its directory to LAYERS in this test")
                for header in pattern.findall(path.read_text()):
                    # A header without a tracked file is generated.
                    if header.startswith(directory + "/") and (ROOT / header).exists() and height(header) > height(name):
                        wrong.append(f"{name} includes {header}")
        self.assertEqual(wrong, [], "see LAYERS in this test")

    def test_nccl_programs_include_no_mccs_headers(self):
        pattern = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)
        own = {path.relative_to(ROOT / "examples").as_posix() for path in sources(".h") if top_directory_of(path) == "examples"}
        for path in sources(".h", ".cc"):
            if top_directory_of(path) != "examples" and ROOT / "tests/conformance" not in path.parents:
                continue
            for header in pattern.findall(path.read_text()):
                foreign = (ROOT / header).exists() and header not in own
                self.assertFalse(foreign, f"{path.relative_to(ROOT)} includes {header}")

    def test_every_directory_with_code_has_a_rule(self):
        self.assertEqual({top_directory_of(path) for path in sources(".h", ".cc")} - set(MAY_INCLUDE), set())


class Files(unittest.TestCase):
    def test_no_file_has_merge_conflict_markers(self):
        marker = re.compile(r"^(<{7} |>{7} |={7}$)", re.MULTILINE)
        suffixes = (".h", ".cc", ".py", ".md", ".proto", ".yaml", ".txt", ".cmake", ".sh", "")
        conflicted = [str(path.relative_to(ROOT)) for path in sources(*suffixes)
                      if marker.search(path.read_text(errors="replace"))]
        self.assertEqual(conflicted, [], "files with merge conflict markers")

    def test_no_file_exceeds_the_line_limit(self):
        too_long = []
        for path in sources(".h", ".cc", ".cu", ".cuh", ".py"):
            lines = len(path.read_text().splitlines())
            if lines > LINES_MAX:
                too_long.append(f"{path.relative_to(ROOT)}: {lines} lines")
            elif lines > LINES_RECOMMENDED and top_directory_of(path) != "tests":
                print(f"warning: {path.relative_to(ROOT)} has {lines} lines; aim at {LINES_RECOMMENDED}")
        self.assertEqual(too_long, [], f"files longer than {LINES_MAX} lines; split them")

    def test_no_header_lacks_its_guard(self):
        unguarded = []
        for path in sources(".h"):
            name = path.relative_to(ROOT).as_posix()
            if name.endswith("-inl.h"):
                continue  # included once per instruction set
            if name.startswith("emulation/include/"):
                name = path.name  # programs include it by its bare name
            guards = {re.sub(r"[^A-Za-z0-9]", "_", prefix + name).upper() + "_" for prefix in ("", "mccs/")}
            found = re.search(r"^#ifndef (\w+)\n#define (\w+)$", path.read_text(), re.MULTILINE)
            if not found or found[1] != found[2] or found[1] not in guards:
                unguarded.append(name)
        self.assertEqual(unguarded, [], "header guard must be the path in capitals, with or without MCCS_")

    def test_every_header_starts_with_a_comment(self):
        undocumented = [path.relative_to(ROOT).as_posix() for path in sources(".h")
                        if not path.read_text().lstrip().startswith(("//", "/*"))]
        self.assertEqual(undocumented, [])

    def test_no_file_has_leftover_markers(self):
        found = []
        for path in sources(".h", ".cc", ".cu", ".cuh", ".py", ".txt", ".cmake", ".proto", ".md", ".sh"):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if LEFTOVERS.search(line):
                    found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
        self.assertEqual(found, [])

    def test_no_file_has_a_catch_all_name(self):
        catch_alls = {"utils", "util", "common", "misc", "helpers", "manager"}
        named = [path.relative_to(ROOT).as_posix() for path in sources(".h", ".cc", ".py")
                 if catch_alls & {path.stem, *path.relative_to(ROOT).parts[:-1]}]
        self.assertEqual(named, [])


class GoldenFiles(unittest.TestCase):
    def test_every_golden_file_is_compared_by_a_test(self):
        tests = "".join(path.read_text() for path in (ROOT / "tests/unit").rglob("golden_*_test.cc"))
        compared = set(re.findall(r'ExpectGolden\("([^"]+)"', tests))
        self.assertEqual({path.name for path in (ROOT / "tests/golden").iterdir()}, compared)


class FuzzTargets(unittest.TestCase):
    def test_each_names_files_whose_coverage_counts(self):
        known = list(sources(".cc", ".h"))
        for target in sorted((ROOT / "tests/fuzz/targets").glob("*.cc")):
            comment = [line for line in target.read_text().splitlines() if line.startswith("//")]
            # run_targets.py reads only lines with this prefix.
            unread = [line for line in comment if re.match(r"// [\w/*]+/[\w*]+\.(cc|h)\b", line)]
            self.assertEqual(unread, [], target.name)
            for pattern in (name for line in comment if line.startswith("// FUZZES: ") for name in line.split()[2:]):
                self.assertTrue(any(path.match(pattern) for path in known), f"{target.name}: {pattern}")


class Sleeps(unittest.TestCase):
    # Files of tests with one thread or process more than the test's, where no event shows what the test waits for.
    # Comments beside the sleeps say why. All others advance a clock, or use tests/unit/eventually.h.
    MAY_SLEEP = {
        "tests/unit/eventually.h": 1,
        "tests/unit/emulation/engine_test.cc": 2,
        "tests/unit/shim/export_lifetime_test.cc": 1,
    }

    def test_unit_tests_do_not_sleep(self):
        sleep = re.compile(r"\b(sleep_for|sleep_until|u?sleep|nanosleep|SleepFor|time\.sleep)\(|\bpoll\((nullptr|NULL)")
        counts = {}
        for path in sources(".h", ".cc", ".py"):
            name = path.relative_to(ROOT).as_posix()
            found = len(sleep.findall(path.read_text()))
            if found and name.startswith(("tests/unit/", "tests/sim/", "tests/contract/")):
                counts[name] = found
        self.assertEqual(counts, self.MAY_SLEEP, "sleeps by file; wait for an event, or advance a clock")


class Scripts(unittest.TestCase):
    def scripts(self):
        for path in [*(ROOT / "scripts").iterdir(), ROOT / ".ci/run"]:
            if path.is_file() and "bash" in path.read_text().partition("\n")[0]:
                yield path

    def test_all_stop_at_the_first_error_and_can_be_run(self):
        for path in self.scripts():
            self.assertIn("\nset -euo pipefail\n", path.read_text(), path.name)
            self.assertTrue(os.access(path, os.X_OK), path.name)

    def test_shellcheck_finds_nothing(self):
        if shutil.which("shellcheck") is None:
            self.skipTest("shellcheck is not installed")
        checked = subprocess.run(["shellcheck", *map(str, self.scripts())], capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stdout)


if __name__ == "__main__":
    cases.main()
