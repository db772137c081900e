#!/usr/bin/env python3
"""scripts/gpu-check (tools/gpu_check/): limits, processes that it ends, the table and the JSON, and what it reads."""
import contextlib
import io
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools/gpu_check")]
import cases  # noqa: E402
import conformance  # noqa: E402
import environment  # noqa: E402
import failures  # noqa: E402
import main  # noqa: E402
import package  # noqa: E402
import parts  # noqa: E402
import performance  # noqa: E402
import pytorch  # noqa: E402
import report  # noqa: E402
import sanitizers  # noqa: E402
import zstd  # noqa: E402
from check import Check  # noqa: E402
from processes import Processes  # noqa: E402
from results import FAILED, PASSED, SKIPPED, Budget, Deadline, Failed, Figure, OutOfTime, Result, Skipped  # noqa: E402

CHECK = ROOT / "scripts/gpu-check"


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Limits(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()

    def test_a_part_gets_its_own_limit_while_there_is_time(self):
        self.assertEqual(Budget(100, self.clock).limit_of(30), 30)

    def test_a_late_part_gets_what_is_left(self):
        budget = Budget(100, self.clock)
        self.clock.now = 80
        self.assertEqual(budget.limit_of(30), 20)

    def test_a_part_without_time_is_skipped(self):
        budget = Budget(100, self.clock)
        self.clock.now = 99
        with self.assertRaisesRegex(Skipped, "no time is left of the 100 s"):
            budget.limit_of(30)

    def test_steps_share_the_limit_of_their_part(self):
        deadline = Deadline(10, self.clock)
        self.clock.now = 7
        self.assertEqual(deadline.limit_of(8), 3)
        self.clock.now = 11
        with self.assertRaisesRegex(OutOfTime, "limit of 10 s"):
            deadline.limit_of(8)

    def test_all_parts_fit_in_the_limit(self):
        self.assertLessEqual(sum(part.limit_s for part in parts.PARTS), main.LIMIT_S)
        self.assertLess(main.LIMIT_S, 9 * 60)


class Report(unittest.TestCase):
    RESULTS = [Result("machine", PASSED, 0.5, 15, "H100"),
               Result("service", FAILED, 20.0, 20, "mccsd ended\nwith a log"),
               Result("graphs", SKIPPED, 0, 30, "no time is left", [Figure("replay", 2.5, "µs")])]

    def test_the_table_has_one_line_for_each_part(self):
        lines = report.table(self.RESULTS).splitlines()
        self.assertEqual([line.split()[:2] for line in lines],
                         [["PART", "RESULT"], ["machine", "passed"], ["service", "FAILED"], ["graphs", "SKIPPED"],
                          ["1", "passed,"]])
        self.assertNotIn("with a log", "\n".join(lines))

    def test_the_json_has_every_figure_with_its_unit(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "gpu-check.json"
            report.write_json(path, self.RESULTS, {"GPU": "H100"}, {"commit": "abc"}, {"emulated": False})
            written = json.loads(path.read_text())
        self.assertEqual(written["machine"], {"GPU": "H100"})
        self.assertEqual(written["package"]["commit"], "abc")
        self.assertEqual([part["result"] for part in written["parts"]], ["passed", "failed", "skipped"])
        self.assertEqual(written["parts"][2]["figures"], [{"name": "replay", "value": 2.5, "unit": "µs"}])

    def test_only_a_failed_part_makes_the_exit_status_1(self):
        self.assertEqual(report.exit_status(self.RESULTS), 1)
        self.assertEqual(report.exit_status(self.RESULTS[::2]), 0)


class Directory(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="mccs-gpu-check-")
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)

    def script(self, name, text):
        path = self.root / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path


def ends(pid, limit_s=10):
    """Waits for the end of a process that may not be a child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], limit_s)[0])
    finally:
        os.close(descriptor)


class Programs(Directory):
    def setUp(self):
        super().setUp()
        self.processes = Processes(self.root)
        self.addCleanup(self.processes.kill_all)
        self.said = []
        fake = types.SimpleNamespace(emulated=True)
        service = types.SimpleNamespace(runs=lambda: False, processes=lambda: [], stop=lambda: None)
        self.check = Check(None, fake, service, self.processes, self.said.append)
        self.check.begin(10)

    def run_script(self, text, limit_s=5.0):
        return self.check.run("script", [self.script("script", text)], dict(os.environ), limit_s)

    def test_the_output_of_a_program_is_in_its_log(self):
        ended = self.run_script("echo hello; echo problem >&2")
        self.assertEqual(ended.expect(), "hello\nproblem\n")
        self.assertIn("hello", ended.log.read_text())

    def test_a_failure_shows_the_last_line_and_the_log(self):
        ended = self.run_script("echo first; echo out of memory; exit 7")
        with self.assertRaises(Failed) as raised:
            ended.expect()
        self.assertEqual(str(raised.exception).splitlines()[0], "exit status 7, expected 0: out of memory")
        self.assertIn(str(ended.log), str(raised.exception))

    def test_a_program_that_hangs_is_ended_with_its_children(self):
        ended = self.run_script("sleep 100 & echo child $!; echo waiting; wait", limit_s=0.5)
        self.assertIsNone(ended.status)
        self.assertIn("did not end", ended.reason)
        self.assertIn("waiting", ended.reason)
        child = int(ended.output.split()[1])
        self.assertTrue(ends(child))

    def test_a_rank_that_fails_ends_the_others(self):
        script = self.script("rank", 'if [ "$RANK" = 1 ]; then echo broken; exit 3; fi; exec sleep 100')
        begun = time.monotonic()
        ended = self.check.run_ranks("rank", 3, [script], dict(os.environ), 60)
        self.assertEqual((ended.status, ended.output), (3, "broken\n"))
        self.assertLess(time.monotonic() - begun, 30)

    def test_ranks_have_one_gpu_and_numbers_of_their_own(self):
        script = self.script("rank", 'echo "$RANK of $WORLD_SIZE on $LOCAL_RANK"')
        self.assertEqual(self.check.run_ranks("rank", 2, [script], dict(os.environ), 60).expect(), "0 of 2 on 0\n")

    def test_a_failed_step_does_not_end_its_part(self):
        def fails():
            raise Failed("broken")

        def reads_nonsense():
            float("nonsense")

        self.assertIsNone(self.check.attempt("one", fails))
        self.assertIsNone(self.check.attempt("two", reads_nonsense))
        self.assertEqual(self.check.attempt("three", lambda: 3), 3)
        self.assertEqual([problem.split(":")[0] for problem in self.check.problems], ["one", "two"])

    def run_part(self, function, limit_s=10):
        return parts.run_part(parts.Part("part", limit_s, function), self.check, Budget(100))

    def test_a_part_with_a_failed_step_has_failed(self):
        def part(check):
            check.figure("time", 2, "s")
            check.problems.append("step: broken\nlog: x")
            return "good"

        result = self.run_part(part)
        self.assertEqual((result.result, result.text), (FAILED, "step: broken"))
        self.assertEqual(result.figures, [Figure("time", 2, "s")])

    def test_a_part_that_waits_for_ever_is_ended_at_its_limit(self):
        script = self.script("hang", "echo begun; exec sleep 100")

        def part(check):
            check.run("hang", [script], dict(os.environ), 100).expect()

        result = self.run_part(part, limit_s=3)
        self.assertEqual(result.result, FAILED)
        self.assertIn("hang did not end in 3 s: begun", result.text)
        self.assertLess(result.seconds, 10)
        self.assertEqual(len(result.logs), 1)

    def test_a_part_that_cannot_run_is_skipped_with_its_reason(self):
        def part(_check):
            raise Skipped("there is no GPU")

        result = self.run_part(part)
        self.assertEqual((result.result, result.text), (SKIPPED, "there is no GPU"))

    def test_a_part_leaves_no_process(self):
        script = self.script("stays", "exec sleep 100")
        started = []

        def part(check):
            started.append(check.processes.start("stays", [script], dict(os.environ)))
            return ""

        self.run_part(part)
        self.assertIsNotNone(started[0].poll())

    def test_processes_end_when_the_check_is_killed(self):
        program = ("import os, pathlib, signal, sys; sys.path.insert(0, sys.argv[1]); from processes import Processes; "
                   "p = Processes(pathlib.Path(sys.argv[2])).start('x', ['sh', '-c', 'sleep 100 & wait'], os.environ); "
                   "print(p.pid, flush=True); signal.pause()")
        command = [sys.executable, "-c", program, ROOT / "tools/gpu_check", self.root]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as check:
            group = int(check.stdout.readline())
            check.send_signal(signal.SIGKILL)
        self.assertTrue(ends(group))


class Outputs(unittest.TestCase):
    """Reads what programs print."""

    SUITE = ("conformance: NCCL 2.28.9 (libnccl.so.2), 2 ranks in 2 processes, 3 tests\n"
             "passed  graphs/one (3 ms)\nFAILED  graphs/two (60003 ms): rank 0: timed out\n"
             "skipped graphs/three (0 ms): no\n")

    def test_counts_and_failures_of_the_suite(self):
        table = self.SUITE + "\ngroup             passed  failed  skipped\nall                  330       1       17\n"
        self.assertEqual(conformance.counts_of(table), (330, 1, 17))
        self.assertEqual(conformance.failures_of(table), ["FAILED  graphs/two (60003 ms): rank 0: timed out"])

    def test_the_summary_of_several_runs_of_the_suite(self):
        figures = [Figure(f"{name}: tests {unit}", count, "")
                   for name, passed, failed in (("NCCL, 1 rank", 7, 2), ("MCCS, 1 rank", 9, 0))
                   for unit, count in (("passed", passed), ("failed", failed), ("skipped", 1))]
        self.assertEqual(conformance.summary(figures),
                         "NCCL, 1 rank: 7 passed, 2 failed; MCCS, 1 rank: 9 passed, 0 failed")

    def test_a_suite_that_did_not_end_has_counts_so_far(self):
        self.assertIsNone(conformance.counts_of(self.SUITE))
        self.assertEqual(conformance.progress_of(self.SUITE),
                         "1 passed, 1 failed, 1 skipped, the last one graphs/three")

    def test_rows_of_collective_perf(self):
        output = ("# all_reduce, 2 ranks\n"
                  "    67108864      16777216     float     sum      -1     12809    5.24    5.24      0         -\n"
                  "# Out of bounds values : 0 OK\n")
        self.assertEqual(performance.rows_of(output), [(67108864, 12809.0)])

    def test_the_memory_rate_counts_each_input_and_output_once(self):
        self.assertAlmostEqual(performance.memory_rate(ranks=4, size_bytes=1_000_000, microseconds=1000), 8.0)

    def test_rates_of_the_copy(self):
        self.assertEqual(performance.COPY.findall("kernel 31.6 GB/s, cudaMemcpyAsync 21.9 GB/s"),
                         [("kernel", "31.6"), ("cudaMemcpyAsync", "21.9")])

    def test_the_report_of_a_failed_rank(self):
        found = failures.FAILED_AT.search("running\nfailed 12.5 remote process exited: rank 1 left\n")
        self.assertEqual((found[1], found[2]), ("12.5", "remote process exited: rank 1 left"))

    def test_summaries_of_sanitizers(self):
        for line in ("========= ERROR SUMMARY: 3 errors", "========= RACECHECK SUMMARY: 3 hazards displayed (1 error)"):
            self.assertEqual(sanitizers.SUMMARY.search(line)[1], "3")

    def test_losses_of_rank_0(self):
        self.assertEqual(pytorch.losses_of('a warning\n{"same": [1.0]}\n'), {"same": [1.0]})
        with self.assertRaises(Failed):
            pytorch.losses_of("a warning\n")
        self.assertAlmostEqual(pytorch.difference([1.0, 2.02], [1.0, 2.0]), 0.01)


class Packages(Directory):
    def make_package(self, name="mccs-1"):
        root = self.root / name
        for file in ("bin/mccsd", "lib/libnccl.so.2"):
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).touch()
        (root / "VERSION").write_text("version: 1.2.3\ncommit: abc\nsystem: Debian\n")
        return root

    def test_a_directory_without_programs_is_rejected(self):
        with self.assertRaisesRegex(package.BadPackage, "has no bin/mccsd"):
            package.Package(self.root)

    def test_version_and_commit_are_reported(self):
        described = package.Package(self.make_package()).description()
        self.assertEqual((described["version"], described["commit"]), ("1.2.3", "abc"))

    def test_an_archive_is_unpacked(self):
        root = self.make_package()
        archive = self.root / "mccs.tar"
        with tarfile.open(archive, "w") as tar:
            tar.add(root, "mccs-1")
        with contextlib.ExitStack() as stack:
            original = package.zstd_stream
            stack.callback(setattr, package, "zstd_stream", original)
            package.zstd_stream = lambda path: path.open("rb")
            (self.root / "unpacked").mkdir()
            found = package.unpack(archive, self.root / "unpacked")
        self.assertEqual(found.name, "mccs-1")

    def test_zstandard_is_decompressed_by_the_library(self):
        if shutil.which("zstd") is None:
            self.skipTest("zstd is not installed")
        content = os.urandom(3_000_000) + bytes(20_000_000)
        plain, compressed = self.root / "plain", self.root / "compressed"
        plain.write_bytes(content)
        subprocess.run(["zstd", "--quiet", "-1", "-o", compressed, plain], check=True)
        try:
            reader = zstd.Reader(compressed)
        except OSError as error:
            self.skipTest(f"no libzstd: {error}")
        with reader:
            self.assertTrue(reader.read() == content)
        compressed.write_bytes(b"not Zstandard at all")
        with zstd.Reader(compressed) as reader, self.assertRaisesRegex(OSError, "invalid Zstandard data"):
            reader.read()

    def test_the_callers_libraries_take_precedence(self):
        for name in ("a", "b"):
            (self.root / name).mkdir()
        (self.root / "b" / "libx.so").touch()
        found = environment.find_library("libx.so", None, {"LD_LIBRARY_PATH": f"{self.root}/a:{self.root}/b"})
        self.assertEqual(found, (self.root / "b/libx.so").resolve())
        self.assertIsNone(environment.find_library("lib-of-no-system.so", None, {}))


class Options(Directory):
    def gpu_check(self, *arguments):
        return subprocess.run([CHECK, *arguments], capture_output=True, text=True, timeout=60, cwd=self.root)

    def test_help_names_every_part_and_the_exit_statuses(self):
        shown = self.gpu_check("--help")
        self.assertEqual(shown.returncode, 0)
        for part in parts.PARTS:
            self.assertIn(part.name, shown.stdout)
        self.assertIn("Exit status", shown.stdout)

    def test_usage_errors_have_status_2(self):
        for arguments in ((), ("no-such-package",), ("--only", "nonsense", "."), (".",)):
            self.assertEqual(self.gpu_check(*arguments).returncode, 2, arguments)

    def test_a_package_without_service_fails_and_later_parts_run(self):
        self.script("mccsd", "echo unknown key; exit 2")
        (self.root / "lib").mkdir()
        (self.root / "lib/libnccl.so.2").touch()
        self.script("mccs-controller",
                    'echo 127.0.0.1:1 > "$(sed -n "s/state_dir: //p" "$2")/endpoint"; exec sleep 100')
        out = self.root / "out"
        with contextlib.redirect_stdout(io.StringIO()):
            ended = self.gpu_check(str(self.root), "--emulated", "--out", str(out))
        self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
        results = {part["part"]: part["result"]
                   for part in json.loads((out / "gpu-check.json").read_text())["parts"]}
        self.assertEqual(results["service"], "failed")
        self.assertEqual(results["failures"], "skipped")
        self.assertEqual(list(results), [part.name for part in parts.PARTS])


if __name__ == "__main__":
    cases.main()
