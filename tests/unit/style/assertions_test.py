#!/usr/bin/env python3
"""Checks that every test can fail by itself: it asserts something, not only that nothing crashes or hangs."""
import ast
import functools
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from style_test import ROOT, cases, sources  # noqa: E402

# Tests that assert nothing on purpose: "path Suite.Name" or "path name" -> reason.
WITHOUT_ASSERTION = {
    "tests/e2e/pytorch_suite_test.py test_pytorch_is_there": "it is skipped, with the reason, or PyTorch is there",
    "tests/torch_world.py test_needs_its_environment": "it is always skipped, with the reason",
}

# Comments, strings and characters of C++: they are blanked before the search for braces and calls.
NOT_CODE = re.compile(r'R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*(?:.|\n)*?\*/')
TEST = re.compile(r"^(?:TYPED_)?TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)\s*\{", re.MULTILINE)
ASSERTION = re.compile(r"\b(?:(?:EXPECT|ASSERT)_\w+|ADD_FAILURE\w*|FAIL)\s*\(")
# Functions of tests with these names count as assertions if they contain one. Names like Start() do not, even if they
# contain one: it checks the test's preparation only.
HELPER = re.compile(r"\b((?:Expect|Check|Assert|Run)\w*)\s*(?:<[^;(){}]*>)?\(")
HELPER_DEFINITION = re.compile(HELPER.pattern + r"[^;{}]*\)\s*(?:const\s*)?\{")


def code_of(path):
    return NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), path.read_text())


def block_at(text, start):
    """The text from `start`, which is inside a brace, to the brace's end."""
    depth = 1
    for found in re.finditer(r"[{}]", text[start:]):
        depth += 1 if found[0] == "{" else -1
        if depth == 0:
            return text[start:start + found.start()]
    raise ValueError("unbalanced braces")


@functools.cache
def test_code():
    return {path.relative_to(ROOT).as_posix(): code_of(path)
            for path in sources(".cc", ".h") if path.relative_to(ROOT).parts[0] == "tests"}


def asserting_helpers(texts):
    """Names of helpers that contain an assertion, directly or through other helpers."""
    bodies = [(found[1], block_at(text, found.end()))
              for text in texts for found in HELPER_DEFINITION.finditer(text)]
    names = {name for name, body in bodies if ASSERTION.search(body)}
    while True:
        more = {name for name, body in bodies if names & set(HELPER.findall(body))} - names
        if not more:
            return names
        names |= more


def tests_without_assertion(texts):
    """texts: {path: code}. Returns "path Suite.Name" of each test without an assertion."""
    helpers = asserting_helpers(texts.values())
    for path, text in texts.items():
        for found in TEST.finditer(text):
            body = block_at(text, found.end())
            if not ASSERTION.search(body) and not helpers & set(HELPER.findall(body)):
                yield f"{path} {found[1]}.{found[2]}"


def python_tests_without_assertion(tree):
    """Names of the tests in classes that neither assert, nor raise, nor call a function of the file that does."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    asserting = {function.name for function in functions if not function.name.startswith("setUp") and asserts(function)}
    methods = {id(method) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for method in node.body}
    for function in functions:
        if id(function) in methods and function.name.startswith("test_") and not asserts(function) and \
                not asserting & called_by(function):
            yield function.name


def called_by(function):
    return {getattr(node.func, "attr", getattr(node.func, "id", ""))
            for node in ast.walk(function) if isinstance(node, ast.Call)}


def asserts(function):
    return (any(re.match(r"assert|fail$|check|expect", name) for name in called_by(function)) or
            any(isinstance(node, (ast.Raise, ast.Assert)) for node in ast.walk(function)))


class Assertions(unittest.TestCase):
    def test_every_test_has_an_assertion(self):
        found = set(tests_without_assertion(test_code()))
        found |= {f"{path.relative_to(ROOT)} {name}"
                  for path in sources(".py") if path.relative_to(ROOT).parts[0] == "tests"
                  for name in python_tests_without_assertion(ast.parse(path.read_text()))}
        self.assertGreater(sum(len(TEST.findall(text)) for text in test_code().values()), 1000, "tests are not found")
        self.assertEqual(sorted(found - set(WITHOUT_ASSERTION)), [], "assert the outcome in these tests")
        self.assertEqual(sorted(set(WITHOUT_ASSERTION) - found), [], "unused exceptions; remove them")

    def test_the_check_detects_tests_without_assertion(self):
        text = """
TEST(A, Crashes) { Use(EXPECT); if (x) { y(); } }
TEST_F(A, Asserts) { EXPECT_EQ(1, 2); }
TEST_P(A, AssertsThroughHelpers) { ExpectAll(2); }
TEST(A, CallsAHelperWithoutAssertion) { ExpectNothing(); }
TEST(A, OnlyStarts) { Start(); }
void ExpectOne(int x) { EXPECT_EQ(x, 1); }
void ExpectAll(int x) { ExpectOne(x); }
void ExpectNothing() { Use(); }
void Start() { ASSERT_TRUE(true); }
"""
        self.assertEqual([name.split()[1] for name in tests_without_assertion({"a.cc": text})],
                         ["A.Crashes", "A.CallsAHelperWithoutAssertion", "A.OnlyStarts"])
        self.assertEqual(list(python_tests_without_assertion(ast.parse(
            "class A:\n def test_a(self):\n  use()\n def test_b(self):\n  self.b()\n def b(self):\n  self.assertTrue(use())\n"))),
            ["test_a"])


if __name__ == "__main__":
    cases.main()
