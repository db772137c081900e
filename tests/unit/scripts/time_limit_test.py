#!/usr/bin/env python3
"""The time limit of scripts/test."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
import cases  # noqa: E402


class TimeLimit(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="mccs-limit-")
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        shutil.copytree(ROOT / "scripts", self.root / "scripts")
        for script in ("setup", "build", "docs", "setup_pytorch", "rdma-test"):
            (self.root / "scripts" / script).write_text(f'#!/bin/sh\necho "ran {script} $*"\n')

    def run_tests(self, *arguments):
        return subprocess.run([self.root / "scripts/test", *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60)

    def test_groups_after_the_limit_are_named_and_counted_as_skipped(self):
        result = self.run_tests("--minutes", "0")
        lines = result.stdout.splitlines()
        skipped = [line.split()[1] for line in lines if " is SKIPPED: " in line]
        for group in ("conformance-and-pytorch", "checked", "end-to-end", "engines", "random-input", "rdma"):
            self.assertEqual(skipped.count(group), 1, result.stdout)
            self.assertIn(f"skipped: {group}: {group}", lines)
        self.assertEqual(lines[-1], f"0 passed, 0 failed, {len(skipped)} skipped")
        self.assertEqual(result.returncode, 1, "nothing was tested")
        self.assertEqual([line for line in lines if line.startswith("ran ")], ["ran setup "])

    def test_without_a_limit_each_group_begins(self):
        # No tests are built here, so each group of ctest fails.
        lines = self.run_tests("--no-limit").stdout.splitlines()
        self.assertFalse([line for line in lines if "SKIPPED" in line])
        self.assertIn("ran build tsan tests_engine", lines)
        self.assertIn("test: random-input (asan)", lines)

    def test_the_limit_is_a_number(self):
        result = self.run_tests("--minutes", "soon")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--minutes M", result.stdout)


if __name__ == "__main__":
    cases.main()
