#!/usr/bin/env python3
"""No source, comment, document or name uses an idiom for which the field has a standard term (docs/glossary.md).

The lists hold the worst idioms only. They cannot prove that a sentence is plain; a reader does that.
"""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
import cases  # noqa: E402

# Idiom → what to write.
IDIOMS = {
    r"(?:is|are|was|what is|what's) in force\b": "enforced, current, applied",
    r"\b(?:stands|stood) (?:here|in|behind|by|still|beside)\b": "is, is in, is stalled",
    r"passes over memory": "memory bandwidth, memory passes",
    r"first word\b(?! of the)": "first update",
    r"do(?:es)? not fit together": "mismatched",
    r"(?:roster|plan|value|call) that cannot be\b": "invalid",
    r"(?:is|was|were) given up\b": "expired",
    r"gives? (?:it|them)? ?up\b": "drops, expires",
    r"has said nothing|says nothing\b": "no reply from",
    r"what stays needs what would go": "still referenced by",
    r"\bHELD UP\b|\bSHOULD GET\b|\bnot back\b": "STALLED ON, FAIR SHARE, reconnecting",
    r"\bhold of (?:memory|a buffer)": "mapping",
    r"\blets? go of\b|\bletting go\b": "release",
    r"\blast words\b": "final status",
    r"place for the answer": "output pointer",
    r"waited for by nobody": "gets no send window",
    r"\bgives? way\b|\bgave way\b": "yields to",
    r"\bwhoever\b": "name the component or the role",
    r"\bAS TOLD\b|\bas told\b": "unverified",
    r"link to nothing": "dangling symlink",
    r"\bis no [a-z]+; (?:write|give|say)": "expected …",
    r"\bpatience\b": "timeout",
    r"\boffspring\b": "derived communicator",
    r"\bwish(?:es)?\b": "request, target",
    r"\bkeeper\b|\bwarden\b": "supervisor, launcher",
    r"\bnobody\b": "no rank, no call, no thread",
    r"says why": "has the reason",
    r"^\s*(?://|#|/\*)\s*(?:What|Who)\b": "begin the comment with a noun",
    r"\bfirmest\b|\bwho_of\b": "highest, selector_of",
    r"[Kk]nock": "wake, retry",
    r"\bburied\b": "closed, descriptor",
}

ANY_IDIOM = re.compile("|".join(IDIOMS))

# Type, function and file names → their replacements.
NAMES = {
    "Way": "Backend", "Door": "Listener", "Offspring": "DerivedCommunicator", "Outlook": "LocalRankStatus",
    "Birth": "PendingInit", "GonePort": "DepartedRank…", "Patience": "Timeout", "Excuse": "MarkDeparted",
    "Hear": "OnMessage", "GoOver": "SwitchTo", "FailAnew": "EscalateFailure", "RingsNoBell": "NeedsPolling",
    "Bury": "CloseAsync", "Ground": "the specific noun", "Tell": "Send, Report", "LetGo": "Release",
    "Liar": "Hostile…", "Keeper": "Supervisor", "Warden": "Launcher", "KeptPlan": "Planner",
    "KeptView": "ViewCache", "CompleteView": "ResolvedView", "PaceBook": "SentLimits", "ProbeWishes": "ProbeTargets",
    "ProbeBook": "ProbeScheduler", "WindowKeeper": "WindowScheduler", "CostKeeper": "CostCalibrator",
    "StrategyKeeper": "StrategyPersister", "StrategyMemory": "RecoveredStrategies", "Contradictions": "TopologyMismatch",
    "InForce": "EnforcementStatus",
}
FILES = {re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower() for name in NAMES} - {"way", "ground"}
FILES |= {"frees", "questions", "own_decisions", "paces"}

# Documents at their own date, and this test.
EXCLUDED = ("docs/decisions/", "docs/results/", "tests/unit/style/language_test.py", "CHANGELOG.md")
TEXTS = (".c", ".cc", ".cmake", ".cu", ".h", ".md", ".proto", ".py", ".S", ".txt", ".yaml")
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def tracked(*suffixes):
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"],
                            capture_output=True, text=True)
    if listed.returncode != 0:
        raise unittest.SkipTest("this tree is not a git repository; its files are not known")
    names = [name for name in listed.stdout.splitlines() if not name.startswith(EXCLUDED) and name.endswith(suffixes)]
    return [name for name in names if (ROOT / name).is_file()]


def idioms_in(text):
    if not ANY_IDIOM.search(text):
        return []
    return [(idiom, remedy, match[0]) for idiom, remedy in IDIOMS.items() for match in re.finditer(idiom, text)]


class Language(unittest.TestCase):
    def test_no_line_has_an_idiom(self):
        found = []
        for name in [*tracked(*TEXTS), *(name for name in tracked("") if name.startswith("scripts/"))]:
            for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
                found += [f"{name}:{number}: '{words}': write {remedy}" for _, remedy, words in idioms_in(line)]
        self.assertEqual(found, [])

    def test_no_type_or_function_has_a_replaced_name(self):
        pattern = re.compile(r"\b(" + "|".join(NAMES) + r")\b")
        found = []
        for name in tracked(".h", ".cc", ".proto"):
            for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
                code = STRING.sub('""', line).split("//")[0]
                found += [f"{name}:{number}: {word}: write {NAMES[word]}" for word in pattern.findall(code)]
        self.assertEqual(found, [])

    def test_no_file_has_a_replaced_name(self):
        found = []
        for name in tracked(""):
            stem = pathlib.PurePosixPath(name).name.split(".")[0]
            if stem.removesuffix("_test") in FILES:
                found.append(name)
        self.assertEqual(found, [], "see FILES in this test")

    def test_the_patterns_find_their_idioms(self):
        for text in ("the order is in force", "the daemon lets go of it", "was given up", "Whoever asks".lower(),
                     "  // What both ends have", "the message says why", "kKnockAgain"):
            self.assertTrue(idioms_in(text), text)


if __name__ == "__main__":
    cases.main()
