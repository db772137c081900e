#!/usr/bin/env python3
"""The results of bench/suite: rows over rounds, missing peers, goals, and the comparison of two runs."""
import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench/suite"), str(ROOT / "bench")]
import cases  # noqa: E402
import compare  # noqa: E402
import kernels  # noqa: E402
import one_host  # noqa: E402
import scale  # noqa: E402
import small_calls  # noqa: E402
import tenants  # noqa: E402
import two_hosts  # noqa: E402
from figures import Row, at_least, at_most, ratio, results  # noqa: E402

GROUPS = (kernels, one_host, scale, small_calls, tenants, two_hosts)
ROUNDS = [{"ours": 2.0, "peer": 8.0}, {"ours": 4.0, "peer": 8.0}, {"ours": 2.0, "peer": 6.0}]


class Results(unittest.TestCase):
    def test_a_ratio_compares_figures_of_one_round(self):
        result, = results([Row("speed", "x", ratio("peer", "ours"), at_least(3))], ROUNDS)
        self.assertEqual(result.values, [4.0, 2.0, 3.0])
        self.assertEqual(result.as_json(), {"row": "speed", "unit": "x", "higher_is_better": True, "min": 2.0,
                                            "median": 3.0, "max": 4.0, "goal": ">= 3", "met": True})

    def test_a_missing_peer_leaves_a_row_without_a_verdict(self):
        result, = results([Row("speed", "x", ratio("time/OpenMPI", "ours"), at_least(3))], ROUNDS)
        self.assertEqual(result.values, [])
        self.assertIn("not measured", result.verdict())
        self.assertNotIn("met", result.as_json())

    def test_a_missing_figure_of_our_own_is_an_error(self):
        with self.assertRaises(KeyError):
            results([Row("speed", "x", ratio("peer", "renamed"))], ROUNDS)

    def test_a_missed_goal_is_marked(self):
        result, = results([Row("time", "us", lambda values: values["ours"], at_most(1.5))], ROUNDS)
        self.assertEqual(result.verdict(), "MISSED (goal <= 1.5)")

    def test_rows_have_different_names(self):
        names = [row.name for group in GROUPS for row in group.rows()]
        self.assertEqual(len(names), len(set(names)))


class Comparison(unittest.TestCase):
    @staticmethod
    def rows(unit, higher_is_better, **medians):
        return {name: {"row": name, "unit": unit, "higher_is_better": higher_is_better, "median": median}
                for name, median in medians.items()}

    def test_reports_ratios_that_are_worse_by_more_than_the_tolerance(self):
        lines, compared = compare.losses(self.rows("x", True, a=1.0, b=1.0, c=1.0),
                                         self.rows("x", True, a=0.86, b=0.84, c=2.0))
        self.assertEqual(compared, 3)
        self.assertEqual([line.split(":")[0] for line in lines], ["b"])

    def test_of_a_ratio_of_times_the_higher_one_is_worse(self):
        lines, _ = compare.losses(self.rows("x", False, a=1.0, b=1.0), self.rows("x", False, a=0.5, b=1.3))
        self.assertEqual([line.split(":")[0] for line in lines], ["b"])

    def test_rounds_that_overlap_prove_nothing(self):
        for higher, now in ((True, {"min": 0.4, "median": 0.5, "max": 0.81}),
                            (False, {"min": 1.19, "median": 2.0, "max": 2.5})):
            kept = {"a": {"row": "a", "unit": "x", "higher_is_better": higher, "min": 0.8, "median": 1.0, "max": 1.2}}
            found = {"a": {"row": "a", "unit": "x", "higher_is_better": higher, **now}}
            self.assertEqual(compare.losses(kept, found)[0], [])
            found["a"] |= {"max": 0.79} if higher else {"min": 1.21}
            self.assertEqual(len(compare.losses(kept, found)[0]), 1)

    def test_absolute_figures_and_missing_peers_are_not_compared(self):
        missing = {"b": {"row": "b", "unit": "x", "higher_is_better": True}}
        lines, compared = compare.losses(self.rows("us", False, a=1.0) | self.rows("x", True, b=1.0),
                                         self.rows("us", False, a=9.0) | missing)
        self.assertEqual((lines, compared), ([], 0))

    def test_reads_what_a_run_writes(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write(json.dumps({"machine": "m", "date": "d"}) + "\n")
            file.write(json.dumps({"group": "g", "row": "a", "unit": "x", "median": 1.0}) + "\n")
            file.flush()
            rows, about = compare.load(pathlib.Path(file.name))
        self.assertEqual((list(rows), about["machine"]), (["a"], "m"))

    def test_the_kept_run_has_the_rows_of_the_suite(self):
        kept, _ = compare.load(ROOT / "docs/results/bench.jsonl")
        names = {row.name for group in GROUPS for row in group.rows()}
        self.assertEqual(set(kept), names)


if __name__ == "__main__":
    cases.main()
