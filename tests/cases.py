"""Runs unittest cases with the output of a GoogleTest program: the same lines on stdout and, with
MCCS_TEST_REPORTS=DIRECTORY, the same report, so that scripts/count_results counts every case. MCCS_TEST_NAME is the
report's name if the test runs under several names. A case that runs many tests adds their number to `self.tests_run`."""
import os
import sys
import time
import unittest
import xml.etree.ElementTree as ElementTree


class _Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.report = ElementTree.Element("testsuites")
        self._started = 0.0
        self._outcome = None

    def startTest(self, test):
        super().startTest(test)
        self._started = time.monotonic()
        self._outcome = ("       OK", None, "")
        print(f"[ RUN      ] {_label(test)}", flush=True)

    def stopTest(self, test):
        super().stopTest(test)
        self._report(test)

    def _report(self, test):
        head, kind, text = self._outcome
        seconds = time.monotonic() - self._started
        if text:
            print(text.rstrip())
        print(f"[{head:>9} ] {_label(test)} ({seconds * 1000:.0f} ms)", flush=True)
        group, name = _label(test).rsplit(".", 1)
        tests_run = getattr(test, "tests_run", 0)
        case = ElementTree.SubElement(
            self.report, "testcase", classname=group, name=name, status="run", time=f"{seconds:.3f}",
            result="skipped" if kind == "skipped" else "completed")
        if tests_run:
            case.set("tests", str(tests_run))
        if kind:
            ElementTree.SubElement(case, kind, message=text)

    def addError(self, test, err):
        super().addError(test, err)
        self._fail(test, self.errors[-1][1])

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._fail(test, self.failures[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._fail(test, self._exc_info_to_string(err, test))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._outcome = (" SKIPPED", "skipped", reason)
        if self._is_group(test):
            self._started = time.monotonic()
            self._report(test)

    def _fail(self, test, text):
        # A failure of setUpClass comes before any startTest.
        if self._is_group(test):
            self._started = time.monotonic()
            self._outcome = ("  FAILED", "failure", text)
            self._report(test)
        else:
            _, _, before = self._outcome
            self._outcome = ("  FAILED", "failure", before + text)

    @staticmethod
    def _is_group(test):
        return not isinstance(test, unittest.TestCase)


def _label(test):
    if isinstance(test, unittest.TestCase):
        return f"{type(test).__name__}.{test._testMethodName}"
    return f"setUpClass.{str(test).replace('.', '_')}"


def main():
    """Runs the cases of the calling program. Arguments select the cases whose names contain one of them."""
    program = os.path.splitext(os.path.basename(sys.argv[0]))[0]
    loader = unittest.TestLoader()
    if len(sys.argv) > 1:
        loader.testNamePatterns = [f"*{word}*" for word in sys.argv[1:]]
    cases = loader.loadTestsFromModule(sys.modules["__main__"])
    if cases.countTestCases() == 0:
        sys.exit(f"{program}: no case has a name that contains {' or '.join(sys.argv[1:]) or 'test'}")
    result = _Result()
    cases.run(result)
    directory = os.environ.get("MCCS_TEST_REPORTS")
    if directory:
        os.makedirs(directory, exist_ok=True)
        name = os.environ.get("MCCS_TEST_NAME", program)
        ElementTree.ElementTree(result.report).write(os.path.join(directory, name + ".xml"))
    sys.exit(0 if result.wasSuccessful() else 1)
