#!/usr/bin/env python3
"""docs/security.md names only tests that exist, and each attack in its tables has one."""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
import cases  # noqa: E402

CPP_TEST = re.compile(r"^TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)", re.MULTILINE)
NAME = re.compile(r"`(\w+\.\w+)`")


def existing_tests():
    found = set()
    contracts = (ROOT / "tests").rglob("*_contract.h")
    for path in [*(ROOT / "tests").rglob("*_test.cc"), *contracts]:
        found.update(".".join(names) for names in CPP_TEST.findall(path.read_text()))
    for path in (ROOT / "tests").rglob("*_test.py"):
        for part in re.split(r"^class ", path.read_text(), flags=re.MULTILINE)[1:]:
            name = re.match(r"\w+", part).group()
            found.update(f"{name}.{test}" for test in re.findall(r"^    def (test_\w+)", part, re.MULTILINE))
    return found


def attacks(text):
    """The rows of the tables: the attack, and the tests in its last column."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {row[0]: NAME.findall(row[-1]) for row in rows if row[0] != "attack" and not set(row[0]) <= set("-")}


class Security(unittest.TestCase):
    def test_each_attack_is_held_by_tests_that_exist(self):
        known = existing_tests()
        rows = attacks((ROOT / "docs/security.md").read_text())
        self.assertGreater(len(rows), 20)
        for attack, tests in rows.items():
            self.assertTrue(tests, f"no test holds: {attack}")
            for test in tests:
                self.assertIn(test, known, f"of the attack: {attack}")

    def test_the_check_finds_rows_without_tests(self):
        self.assertEqual(attacks("| attack | must not | held by |\n|---|---|---|\n| a | b | `S.T`, `U.V` |\n| c | d | |\n"),
                         {"a": ["S.T", "U.V"], "c": []})


if __name__ == "__main__":
    cases.main()
