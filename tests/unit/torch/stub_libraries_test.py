#!/usr/bin/env python3
"""Stubs of NVIDIA's libraries: a library that needs them loads, and every call returns an error."""
import ctypes
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
import cases  # noqa: E402

GENERATOR = ROOT / "emulation/torch/environment/stub_libraries.py"


class StubTree:
    """A wheel of one library, libwheel.so, that needs libcublas.so.13 (with versions) and libnccl.so.2 (without)."""

    def __init__(self, directory):
        self.wheel = directory / "wheel"
        self.stubs = directory / "stubs"
        originals = directory / "originals"
        for place in (self.wheel, originals):
            place.mkdir()
        (directory / "cublas.map").write_text("libcublas.so.13 { global: cublas*; local: *; };\n")
        self._compile("int cublasCreate_v2() { return 0; }", originals / "libcublas.so.13",
                      "-Wl,-soname,libcublas.so.13", f"-Wl,--version-script,{directory}/cublas.map")
        self._compile('const char* ncclGetErrorString(int e) { return "original"; }', originals / "libnccl.so.2",
                      "-Wl,-soname,libnccl.so.2")
        self._compile("int cublasCreate_v2(); const char* ncclGetErrorString(int);"
                      "int Create() { return cublasCreate_v2(); } const char* Message() { return ncclGetErrorString(3); }",
                      self.wheel / "libwheel.so", originals / "libcublas.so.13", originals / "libnccl.so.2",
                      f"-Wl,-rpath,{self.stubs}")

    @staticmethod
    def _compile(source, output, *options):
        subprocess.run(["cc", "-shared", "-fPIC", "-xc", "-", "-xnone", *map(str, options), "-o", str(output)],
                       input=source, text=True, check=True)

    def generate(self):
        return subprocess.run([sys.executable, str(GENERATOR), str(self.wheel), str(self.stubs)],
                              capture_output=True, text=True)


class StubLibraries(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.world = StubTree(pathlib.Path(scratch.name))

    def test_a_wheel_loads_with_them_and_every_call_is_an_error(self):
        generated = self.world.generate()
        self.assertEqual(generated.returncode, 0, generated.stderr)
        called = subprocess.run(
            [sys.executable, "-c", "import ctypes, sys; wheel = ctypes.CDLL(sys.argv[1]); wheel.Message.restype = "
             "ctypes.c_char_p; print(wheel.Create(), wheel.Create(), wheel.Message().decode())",
             str(self.world.wheel / "libwheel.so")], capture_output=True, text=True)
        self.assertEqual(called.stdout, "1 1 NVIDIA's libnccl.so.2 is not installed\n", called.stderr)
        warning = "cublasCreate_v2 of NVIDIA's libcublas.so.13 was called"
        self.assertEqual(called.stderr.count(warning), 1, called.stderr)

    def test_existing_files_stay(self):
        self.world.generate()
        own = self.world.stubs / "libnccl.so.2"
        own.write_bytes(b"somebody else's")
        self.assertEqual(self.world.generate().stdout, "")
        self.assertEqual(own.read_bytes(), b"somebody else's")

    def test_symbols_carry_the_versions_that_were_imported(self):
        self.world.generate()
        cublas = ctypes.CDLL(str(self.world.stubs / "libcublas.so.13"))
        libc = ctypes.CDLL(None)
        libc.dlvsym.restype = ctypes.c_void_p
        libc.dlvsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
        self.assertTrue(libc.dlvsym(cublas._handle, b"cublasCreate_v2", b"libcublas.so.13"))
        self.assertFalse(libc.dlvsym(cublas._handle, b"cublasCreate_v2", b"libcublas.so.12"))

    def test_a_directory_without_a_wheel_is_an_error(self):
        (self.world.wheel / "libwheel.so").unlink()
        generated = self.world.generate()
        self.assertEqual(generated.returncode, 1)
        self.assertIn("no library in", generated.stderr)


if __name__ == "__main__":
    cases.main()
