#!/usr/bin/env python3
"""scripts/count_results: the sums of all results, and those of programs on the emulated GPU path."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
import cases  # noqa: E402

PASSED = '<testcase classname="A" name="works" status="run" result="completed" tests="340"/>'
SKIPPED = '<testcase classname="A" name="waits" status="run" result="skipped"><skipped message="not yet"/></testcase>'
FAILED = '<testcase classname="A" name="breaks" status="run" result="completed"><failure message="no"/></testcase>'


class CountResults(unittest.TestCase):
    def count(self, **programs):
        """Output and exit status for programs with these cases; None: a program without a report."""
        with tempfile.TemporaryDirectory() as parent:
            directory = pathlib.Path(parent) / "run"
            directory.mkdir()
            lines = "".join(f'<testcase name="{name}" status="run"/>' for name in programs)
            (directory / "ctest.junit").write_text(f"<testsuite>{lines}</testsuite>")
            for name, its in programs.items():
                if its is not None:
                    (directory / f"{name}.xml").write_text(f"<testsuites>{its}</testsuites>")
            result = subprocess.run([ROOT / "scripts/count_results", directory], capture_output=True, text=True,
                                    check=False)
        return result.stdout.splitlines(), result.returncode

    def test_the_last_line_has_the_sums_of_all_programs(self):
        lines, status = self.count(one_test=PASSED + SKIPPED, other_test=None)
        self.assertEqual(lines, ["skipped: run: one_test: A.waits", "2 passed, 0 failed, 1 skipped"])
        self.assertEqual(status, 0)

    def test_a_failed_case_is_named_and_sets_the_exit_status(self):
        lines, status = self.count(one_test=PASSED + FAILED)
        self.assertEqual(lines, ["failed: run: one_test: A.breaks", "1 passed, 1 failed, 0 skipped"])
        self.assertEqual(status, 1)

    def test_programs_on_the_emulated_gpu_path_have_a_line_each(self):
        lines, _ = self.count(suite_on_kernels_test=PASSED + SKIPPED, suite_test=PASSED, sim_on_kernels_test=None)
        self.assertEqual([line for line in lines if line.startswith("on the emulated GPU path")], [
            "on the emulated GPU path: run: suite_on_kernels_test: 1 passed, 0 failed, 1 skipped (340 tests)",
            "on the emulated GPU path: run: sim_on_kernels_test: 1 passed, 0 failed, 0 skipped"])


if __name__ == "__main__":
    cases.main()
