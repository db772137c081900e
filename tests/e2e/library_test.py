#!/usr/bin/env python3
"""libnccl.so.2 and libmccs-frees.so as files: their exported names and their dependencies."""
import subprocess
import unittest

from lab_world import LIB, SANITIZED, cases, need


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class Library(unittest.TestCase):
    def setUp(self):
        need("../lib/libnccl.so.2")
        self.library = str(LIB / "libnccl.so.2")

    def test_exports_nothing_but_nccls_names(self):
        names = [line.split()[-1] for line in output_of("nm", "-D", "--defined-only", self.library).splitlines()]
        self.assertIn("ncclAllReduce", names)
        self.assertIn("pncclAllReduce", names)
        self.assertEqual([name for name in names if not name.startswith(("nccl", "pnccl"))], [])

    def test_is_known_by_the_name_that_programs_ask_for(self):
        self.assertIn("[libnccl.so.2]", output_of("readelf", "-d", self.library))

    def test_brings_no_library_that_could_clash_with_the_programs(self):
        if SANITIZED:
            self.skipTest("a sanitizer's runtime requires the C++ library")
        needed = output_of("ldd", self.library)
        for foreign in ("libstdc++", "grpc", "protobuf", "absl", "spdlog"):
            self.assertNotIn(foreign, needed)


class LibraryOfFrees(unittest.TestCase):
    def setUp(self):
        need("../lib/libmccs-frees.so")
        self.library = str(LIB / "libmccs-frees.so")

    def test_stands_before_frees_and_before_who_hands_their_addresses_out(self):
        names = [line.split()[-1] for line in output_of("nm", "-D", "--defined-only", self.library).splitlines()]
        self.assertEqual(sorted(names), [
            "cuGetProcAddress_v2", "cuMemFree_v2", "cuMemUnmap", "cudaFree", "cudaGetDriverEntryPoint",
            "cudaGetDriverEntryPointByVersion", "cudaGetDriverEntryPointByVersion_ptsz",
            "cudaGetDriverEntryPoint_ptsz", "mccs_frees_listen"])

    def test_needs_nothing_but_libc(self):
        needed = [line.split("[")[1].rstrip("]") for line in output_of("readelf", "-d", self.library).splitlines()
                  if "(NEEDED)" in line]
        self.assertEqual(needed, ["libc.so.6"])


if __name__ == "__main__":
    cases.main()
