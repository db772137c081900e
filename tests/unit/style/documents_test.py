#!/usr/bin/env python3
"""Every path, function and constant that the pages name exists in the code."""
import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
import cases  # noqa: E402

# These describe the current tree. Decisions and results describe the tree at their own date; most pages of
# docs/reference/ are generated.
CURRENT_DOCUMENTS = ["README.md", "CONTRIBUTING.md", "docs/results/README.md", "docs/reference/README.md",
                     "docs/reference/conformance.md"]
CURRENT_DOCUMENTS += sorted(page.relative_to(ROOT).as_posix() for pattern in
                            ("*.md", "concepts/*.md", "get-started/*.md", "ml/*.md", "operators/*.md")
                            for page in (ROOT / "docs").glob(pattern))

# `path/to/file.h`, `directory/`, `lab/*.h`, `a/{b,c}.h`. Excludes absolute paths and $VARIABLES.
PATH = re.compile(r"[\w.\-*{},]+(/[\w.\-*{},]+)*/?")
# `Class::Function`, `Class::Function()`.
MEMBER = re.compile(r"[A-Za-z]\w*(::~?\w+)+(\(\))?")
RATE = re.compile(r"\d+[kMGT]?bit/s")
CONSTANT = re.compile(r"k[A-Z]\w*")

BUILT = ("build/",)  # build output, missing in a fresh tree


def git(*arguments):
    listed = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    if listed.returncode not in (0, 1):
        raise unittest.SkipTest("this tree is not a git repository; its files are not known")
    return listed.stdout


def files():
    names = git("ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    return {name for name in names if (ROOT / name).is_file()}


def words_in_backticks(text):
    fenced = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
    return set(re.findall(r"`([^`\n]+)`", fenced.sub("", text)))


def without_braces(pattern):
    """`a/{b,c}.h` as `a/b.h` and `a/c.h`."""
    parts = [part.split(",") for part in re.split(r"[{}]", pattern)]
    return ["".join(choice) for choice in itertools.product(*parts)]


class Documents(unittest.TestCase):
    def test_every_path_in_backticks_exists(self):
        there = files()
        directories = {str(parent) for name in there for parent in pathlib.PurePosixPath(name).parents}
        missing = []
        for document in CURRENT_DOCUMENTS:
            for word in words_in_backticks((ROOT / document).read_text()):
                if "/" not in word or not PATH.fullmatch(word) or RATE.fullmatch(word) or word.startswith(BUILT):
                    continue
                for path in without_braces(word):
                    path = path.removeprefix("./").rstrip("/")
                    found = any(pathlib.PurePosixPath(name).match(path) for name in there) if "*" in path \
                        else path in there or path in directories
                    if not found:
                        missing.append(f"{document}: {path}")
        self.assertEqual(missing, [], "the documents name paths that do not exist")

    def test_every_function_and_constant_in_backticks_is_in_the_code(self):
        code = "\n".join((ROOT / name).read_text() for name in sorted(files())
                         if name.endswith((".h", ".cc", ".proto")))
        known = set(re.findall(r"\w+", code))
        missing = []
        for document in CURRENT_DOCUMENTS:
            for word in words_in_backticks((ROOT / document).read_text()):
                if MEMBER.fullmatch(word) or CONSTANT.fullmatch(word):
                    names = re.findall(r"\w+", word)
                    missing += [f"{document}: {word}" for name in names if name not in known]
        self.assertEqual(missing, [], "the documents name functions or constants that do not exist")

    def test_the_example_of_mccsd_shows_the_default_lanes(self):
        code = (ROOT / "service/config.h").read_text()
        example = (ROOT / "deploy/examples/mccsd.yaml").read_text()
        for key, default, unit in [("channels", r"int channels = (\d+);", ""), ("slots", r"\.slots = (\d+)", ""),
                                   ("slot_bytes", r"\.slot_bytes = (\d+)u << 10", "KiB"),
                                   ("skew", r"uint32_t skew = (\d+);", "")]:
            expected = re.search(default, code)
            self.assertIsNotNone(expected, f"service/config.h: default of {key} not found")
            shown = f"  {key}: {expected[1]}{unit}"
            self.assertTrue(re.search(rf"(?m)^{shown}\b", example), f"the example lacks '{shown}'")

    def test_links_between_documents_resolve(self):
        dead = []
        for name in sorted(files()):
            if not name.endswith(".md"):
                continue
            for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", (ROOT / name).read_text()):
                if "://" not in target and not (ROOT / name).parent.joinpath(target).exists():
                    dead.append(f"{name}: {target}")
        self.assertEqual(dead, [])

    def test_the_site_builds_without_warnings(self):
        python = ROOT / "build/docs-env/bin/python"
        if not python.exists():
            self.skipTest("build/docs-env does not exist; run scripts/docs once")
        with tempfile.TemporaryDirectory() as directory:
            run = subprocess.run([python, "-m", "mkdocs", "build", "--strict", "--site-dir", directory], cwd=ROOT,
                                 capture_output=True, text=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            pages = list(pathlib.Path(directory).rglob("*.html"))
            self.assertGreater(len(pages), 80)
            # A page loads nothing from other servers.
            loads = re.compile(r'<(?:script|img|link)[^>]*(?:src|href)="https?://[^"]*"')
            self.assertEqual([str(page) for page in pages if loads.search(page.read_text())], [])


if __name__ == "__main__":
    cases.main()
