#!/usr/bin/env python3
"""libnccl.so.2 and libmccs-free-hooks.so as files: their exported names and their dependencies."""
import subprocess
import unittest

from lab_world import LIB, SANITIZED, cases, require_built


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class Library(unittest.TestCase):
    def setUp(self):
        require_built("../lib/libnccl.so.2")
        self.library = str(LIB / "libnccl.so.2")

    def test_exports_nothing_but_nccls_names(self):
        names = [line.split()[-1] for line in output_of("nm", "-D", "--defined-only", self.library).splitlines()]
        self.assertIn("ncclAllReduce", names)
        self.assertIn("pncclAllReduce", names)
        self.assertEqual([name for name in names if not name.startswith(("nccl", "pnccl"))], [])

    def test_has_the_soname_of_nccl(self):
        self.assertIn("[libnccl.so.2]", output_of("readelf", "-d", self.library))

    def test_depends_on_no_library_that_may_conflict_with_programs(self):
        if SANITIZED:
            self.skipTest("a sanitizer's runtime requires the C++ library")
        needed = output_of("ldd", self.library)
        for foreign in ("libstdc++", "grpc", "protobuf", "absl", "spdlog"):
            self.assertNotIn(foreign, needed)


class FreeHooksLibrary(unittest.TestCase):
    def setUp(self):
        require_built("../lib/libmccs-free-hooks.so")
        self.library = str(LIB / "libmccs-free-hooks.so")

    def test_exports_frees_and_functions_that_return_their_addresses(self):
        names = [line.split()[-1] for line in output_of("nm", "-D", "--defined-only", self.library).splitlines()]
        self.assertEqual(sorted(names), [
            "cuGetProcAddress_v2", "cuMemFree_v2", "cuMemUnmap", "cudaFree", "cudaGetDriverEntryPoint",
            "cudaGetDriverEntryPointByVersion", "cudaGetDriverEntryPointByVersion_ptsz",
            "cudaGetDriverEntryPoint_ptsz", "mccs_free_hooks_listen"])

    def test_depends_only_on_libc(self):
        needed = [line.split("[")[1].rstrip("]") for line in output_of("readelf", "-d", self.library).splitlines()
                  if "(NEEDED)" in line]
        self.assertEqual(needed, ["libc.so.6"])


if __name__ == "__main__":
    cases.main()
