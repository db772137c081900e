#!/usr/bin/env python3
"""MCCS_FALLBACK: which library a process's calls reach. Usage: fallback_test.py OURS FAKE LIST

OURS is our libnccl.so.2, FAKE a replacement of the real one, LIST the names that ours exports. Each case is a process
of its own, which loads OURS like a program; there is no daemon.
"""
import ctypes
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import cases  # noqa: E402

OURS, FAKE, LIST = sys.argv[1:4]
REAL = "/usr/local/cuda/lib64/libnccl.so.2"
MAGIC = b"MCCSUID1"

PREAMBLE = """
import ctypes, os, sys, threading
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 128)]
nccl = ctypes.CDLL(sys.argv[1])
nccl.ncclGetLastError.restype = ctypes.c_char_p
nccl.ncclGetLastError.argtypes = [ctypes.c_void_p]
nccl.ncclGetErrorString.restype = ctypes.c_char_p
def calls():
    fake = ctypes.CDLL(sys.argv[2])
    fake.FakeCalls.restype = ctypes.c_char_p
    return fake.FakeCalls().decode()
def last_error():
    return nccl.ncclGetLastError(None).decode()
def mccs_id():
    id = Id()
    id.bytes[:8] = b"MCCSUID1"
    return id
def version():
    number = ctypes.c_int()
    assert nccl.ncclGetVersion(ctypes.byref(number)) == 0
    return number.value
comm = ctypes.c_void_p()
"""


def run(program, **environment):
    """Runs the program, checks that it exits with 0, and returns its standard output and error."""
    setting = {name: value for name, value in os.environ.items()
               if not name.startswith(("NCCL_", "MCCS_")) and name != "LD_PRELOAD"}
    setting |= {"MCCS_SOCKET": "/nonexistent/mccsd.sock", "MCCS_FALLBACK": "nccl", "MCCS_NCCL_PATH": FAKE}
    setting |= environment
    setting = {name: value for name, value in setting.items() if value is not None}
    ended = subprocess.run([sys.executable, "-c", PREAMBLE + program, OURS, FAKE], env=setting, text=True,
                           capture_output=True, timeout=60)
    if ended.returncode != 0:
        raise AssertionError(f"exit {ended.returncode}\n{ended.stdout}{ended.stderr}")
    return ended.stdout.strip(), ended.stderr


class Fallback(unittest.TestCase):
    def test_without_the_variable_calls_fail_with_an_error_message(self):
        for value in (None, "error"):
            out, err = run("print(nccl.ncclGetUniqueId(ctypes.byref(Id())), last_error())", MCCS_FALLBACK=value)
            self.assertTrue(out.startswith("2 no MCCS daemon at /nonexistent/mccsd.sock"), out)
            self.assertEqual(err, "")

    def test_an_invalid_value_is_logged_and_means_error(self):
        out, err = run("print(nccl.ncclGetUniqueId(ctypes.byref(Id())))", MCCS_FALLBACK="yes")
        self.assertEqual(out, "2")
        self.assertIn("invalid MCCS_FALLBACK 'yes': expected error or nccl", err)

    def test_without_a_daemon_every_call_goes_to_the_real_library(self):
        out, err = run("""
id = Id()
assert nccl.ncclGetUniqueId(ctypes.byref(id)) == 0
assert bytes(id.bytes) == b"\\x11" * 128
id.bytes[127] = 7
assert nccl.ncclCommInitRank(ctypes.byref(comm), 2, id, 1) == 0
assert nccl.pncclCommInitRankConfig(ctypes.byref(comm), 3, id, 2, None) == 0
assert nccl.ncclReduce(ctypes.c_void_p(0xabc1), ctypes.c_void_p(0xabc2), ctypes.c_size_t(1 << 40), 7, 2, 5,
                       comm, ctypes.c_void_p(0xabc3)) == 0
assert nccl.ncclCommAbort(comm) == 5
print(version(), last_error(), nccl.ncclGetErrorString(1).decode(), calls())
""")
        self.assertEqual(out, "21805 fake last error fake error string GetUniqueId;CommInitRank 2 17 7 1;"
                              "CommInitRankConfig 3 7 2 NULL;Reduce abc1 abc2 10000000000 7 2 5 2000 abc3;"
                              "CommAbort 2000;")
        self.assertEqual(len(err.splitlines()), 1, err)
        self.assertIn("no MCCS daemon at /nonexistent/mccsd.sock", err)
        self.assertIn(f"go to {FAKE} (NCCL 2.18.5)", err)

    def test_open_groups_are_reopened_in_the_real_library(self):
        out, _ = run("""
nccl.ncclGroupStart()
nccl.ncclGroupStart()
comms = (ctypes.c_void_p * 2)()
assert nccl.ncclCommInitAll(comms, 2, None) == 0
nccl.ncclGroupEnd()
nccl.ncclGroupEnd()
print(calls())
""")
        self.assertEqual(out, "GroupStart 1;GroupStart 2;CommInitAll 2;GroupEnd 1;GroupEnd 0;")

    def test_neutral_queries_decide_nothing(self):
        out, err = run("print(version(), nccl.ncclGroupStart(), nccl.ncclGroupEnd(), nccl.ncclGetErrorString(0))")
        self.assertTrue(out.startswith("22809 0 0"), out)
        self.assertEqual(err, "")

    def test_an_id_of_another_library_selects_it(self):
        out, err = run("""
assert nccl.ncclCommInitRank(ctypes.byref(comm), 2, Id(), 1) == 0
print(calls())
""")
        self.assertEqual(out, "CommInitRank 2 0 0 1;")
        self.assertIn("MCCS did not make the unique id", err)

    def test_an_mccs_id_never_reaches_the_real_library(self):
        out, err = run("""
assert nccl.ncclGetUniqueId(ctypes.byref(Id())) == 0
for attempt in range(2):
    print(nccl.ncclCommInitRank(ctypes.byref(comm), 2, mccs_id(), 1), last_error())
print(nccl.ncclCommInitRankConfig(ctypes.byref(comm), 2, mccs_id(), 1, None))
print(calls())
""")
        lines = out.splitlines()
        self.assertTrue(lines[0].startswith("4 ncclCommInitRank: MCCS made the unique id"), out)
        self.assertEqual(lines[1], lines[0])
        self.assertEqual(lines[2:], ["4", "GetUniqueId;"])

    def test_an_mccs_id_fails_without_a_daemon(self):
        out, err = run("print(nccl.ncclCommInitRank(ctypes.byref(comm), 2, mccs_id(), 1), last_error(), calls())")
        self.assertRegex(out, r"^[1-5] .+")
        self.assertNotIn("CommInitRank", out.partition(" ")[2].rpartition(" ")[2])
        self.assertIn("MCCS made the unique id", err)

    def test_a_function_missing_in_the_real_library_is_an_error(self):
        out, err = run("""
assert nccl.ncclGetUniqueId(ctypes.byref(Id())) == 0
print(nccl.ncclCommSplit(None, 0, 0, None, None), last_error())
print(nccl.ncclTeamRankToWorld())
""")
        lines = out.splitlines()
        self.assertTrue(lines[0].startswith(f"5 ncclCommSplit is not supported by {FAKE}, "), out)
        self.assertEqual(lines[1], "-1")

    def test_concurrent_threads_choose_one_library(self):
        out, err = run("""
threads = [threading.Thread(target=lambda: nccl.ncclGetUniqueId(ctypes.byref(Id()))) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(calls().count("GetUniqueId;"))
""")
        self.assertEqual(out, "8")
        self.assertEqual(len(err.splitlines()), 1, err)

    def test_an_invalid_path_is_logged(self):
        for path in ("/nonexistent/libnccl.so.2", OURS):
            out, err = run("print(nccl.ncclGetUniqueId(ctypes.byref(Id())), last_error())", MCCS_NCCL_PATH=path)
            self.assertTrue(out.startswith("2 no MCCS daemon at"), out)
            self.assertIn("set MCCS_NCCL_PATH to the real library", err)
            self.assertIn(path, err)

    def test_finds_the_next_library_in_the_search_path(self):
        out, err = run("nccl.ncclGetUniqueId(ctypes.byref(Id())); print(calls())", MCCS_NCCL_PATH=None,
                       LD_LIBRARY_PATH=f"{pathlib.Path(OURS).parent}:{pathlib.Path(FAKE).parent}")
        self.assertEqual(out, "GetUniqueId;")

    def test_an_id_of_the_environment_prevents_fallback(self):
        _, err = run("nccl.ncclCommInitAll((ctypes.c_void_p * 1)(), 1, None)", NCCL_COMM_ID="127.0.0.1:9999")
        self.assertIn("MCCS_FALLBACK=nccl cannot be combined with NCCL_COMM_ID", err)


class RealLibrary(unittest.TestCase):
    def setUp(self):
        if not os.path.exists(REAL):
            self.skipTest(f"{REAL} is not installed")

    def test_every_function_is_forwarded(self):
        names = {"nccl" + name for name in pathlib.Path(LIST).read_text().split("\n") if name[:1].isalpha()}
        listed = subprocess.run(["nm", "-D", "--defined-only", REAL], capture_output=True, text=True, check=True)
        real = {line.split()[2] for line in listed.stdout.splitlines()}
        # Not in NCCL's header.
        real.discard("ncclResetDebugInitInternal")
        self.assertEqual({name for name in real if name.startswith("nccl")} - names, set())
        self.assertEqual({name[1:] for name in real if name.startswith("pnccl")} - names, set())

    def test_calls_reach_it_through_our_library(self):
        out, err = run("""
id = Id()
print(nccl.ncclGetUniqueId(ctypes.byref(id)), version(), any(id.bytes))
""", MCCS_NCCL_PATH=REAL, NCCL_SOCKET_IFNAME="lo")
        ours = ctypes.c_int()
        ctypes.CDLL(OURS).ncclGetVersion(ctypes.byref(ours))
        self.assertEqual(out, f"0 {ours.value} True", err)
        self.assertIn(f"go to {REAL}", err)


if __name__ == "__main__":
    del sys.argv[1:4]
    cases.main()
