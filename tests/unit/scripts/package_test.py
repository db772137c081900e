#!/usr/bin/env python3
"""The checks of a package (tools/package/): symbols and libraries of small programs that the test compiles, the
replacements of newer functions of glibc, and the checks of an archive."""
import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "tools/package"))
import cases  # noqa: E402
import elf_check  # noqa: E402
import roots  # noqa: E402
import verify  # noqa: E402

COMPAT = ROOT / "tools/package/glibc_compat.c"
# arc4random is of glibc 2.36.
NEWER = "#include <stdlib.h>\nint main() { return arc4random() == 0; }"
OLDER = "int main() { return 0; }"
THROWS = """
#include <cstdlib>
#include <random>
#include <stdexcept>
int main() {
  try {
    throw std::runtime_error("x");
  } catch (const std::exception& error) {
    return std::random_device()() == std::random_device()() && arc4random() == arc4random();
  }
  return 2;
}
"""


class Directory(unittest.TestCase):
    """A temporary directory for a package."""

    def setUp(self):
        if shutil.which("readelf") is None or shutil.which("g++") is None:
            self.skipTest("readelf or g++ is not installed")
        directory = tempfile.TemporaryDirectory(prefix="mccs-package-")
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)

    def compile(self, output, code, *options, compiler="gcc", suffix=".c"):
        path = self.root / output
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", suffix=suffix) as source:
            source.write(code)
            source.flush()
            subprocess.run([compiler, "-fPIC", "-o", path, source.name, *options], check=True)
        return path

    def library(self, output, code="int f(void) { return 0; }", *options):
        return self.compile(output, code, "-shared", f"-Wl,-soname,{pathlib.Path(output).name}", *options)

    def problems(self):
        return {file.path.name: problems for file, problems in elf_check.check(self.root)}

    def user_of(self, library, output, *options):
        """A program that needs this library."""
        return self.compile(output, "int f(void); int main() { return f(); }", library, *options)


class Symbols(Directory):
    def test_older_functions_are_accepted(self):
        self.compile("bin/older", OLDER)
        self.assertEqual(self.problems(), {"older": []})

    def test_a_newer_function_is_named(self):
        self.compile("bin/newer", NEWER)
        (problem,) = self.problems()["newer"]
        self.assertIn("needs GLIBC_2.36, allowed is at most GLIBC_2.34: arc4random", problem)

    def test_a_shared_cpp_runtime_is_rejected(self):
        self.compile("bin/throws", THROWS, compiler="g++", suffix=".cc")
        problems = " ".join(self.problems()["throws"])
        self.assertIn("needs libstdc++.so.6", problems)
        self.assertRegex(problems, "needs GLIBCXX_[0-9.]+, allowed is none")

    def test_replacements_of_newer_functions_work_and_are_hidden(self):
        compat = self.root / "compat.o"
        subprocess.run(["gcc", "-O2", "-fPIC", "-c", COMPAT, "-o", compat], check=True)
        program = self.compile("bin/throws", THROWS, compat, "-static-libstdc++", "-static-libgcc", "-Wl,--gc-sections",
                               compiler="g++", suffix=".cc")
        self.assertEqual(self.problems(), {"compat.o": [], "throws": []})
        self.assertEqual(subprocess.run([program], check=False).returncode, 0)
        dynamic = subprocess.run(["readelf", "--wide", "--dyn-syms", program], capture_output=True, text=True, check=True)
        self.assertNotRegex(dynamic.stdout, "arc4random|_dl_find_object")


class Libraries(Directory):
    def test_a_library_beside_is_found_by_the_run_path(self):
        library = self.library("lib/private/libown.so.1")
        self.user_of(library, "bin/user", "-Wl,-rpath,$ORIGIN/../lib/private")
        self.assertEqual(self.problems(), {"user": [], "libown.so.1": []})

    def test_a_missing_library_is_named(self):
        library = self.library("lib/libown.so.1")
        self.user_of(library, "bin/user", "-Wl,-rpath,$ORIGIN/../lib/private")
        self.assertEqual(self.problems()["user"], ["needs libown.so.1, which no run path of the package has"])

    def test_a_run_path_outside_of_the_package_is_rejected(self):
        self.compile("bin/user", OLDER, "-Wl,-rpath,/usr/local/lib")
        self.assertIn("outside of the package", self.problems()["user"][0])

    def test_only_rpath_applies_to_libraries_of_libraries(self):
        inner = self.library("lib/libinner.so.1")
        outer = self.library("lib/libouter.so.1", "int f(void); int g(void) { return f(); }", inner)
        user = "int g(void); int main() { return g(); }"
        links = (outer, inner, "-Wl,--as-needed", "-Wl,-rpath,$ORIGIN/../lib")
        self.compile("bin/user", user, *links, "-Wl,--disable-new-dtags")
        self.assertEqual(self.problems()["libouter.so.1"], [])
        self.compile("bin/user", user, *links, "-Wl,--enable-new-dtags")
        self.assertEqual(self.problems()["libouter.so.1"], ["needs libinner.so.1, which no run path of the package has"])

    def test_what_programs_preload_may_need_only_glibc(self):
        other = self.library("lib/libother.so.1")
        self.library("lib/libnccl.so.2", "int f(void); int g(void) { return f(); }", other, "-Wl,-rpath,$ORIGIN")
        self.assertEqual(self.problems()["libnccl.so.2"], ["needs libother.so.1; it may need only glibc"])

    def test_cuda_comes_from_the_emulation_or_the_host(self):
        runtime = self.library("lib/emulation/libcudart.so.13")
        self.user_of(runtime, "bin/user")
        self.assertEqual(self.problems()["user"], [])
        runtime.unlink()
        self.assertEqual(self.problems()["user"], ["needs libcudart.so.13, which lib/emulation/ does not have"])


class Program(Directory):
    def status(self):
        return subprocess.run([sys.executable, ROOT / "tools/package/elf_check.py", self.root], capture_output=True,
                              text=True, check=False)

    def test_the_exit_status_tells_whether_all_files_are_good(self):
        self.compile("bin/older", OLDER)
        self.assertEqual(self.status().returncode, 0)
        self.compile("bin/newer", NEWER)
        done = self.status()
        self.assertEqual(done.returncode, 1)
        self.assertIn("bin/newer  GLIBC_2.36  FAILED", done.stdout)

    def test_a_directory_without_programs_is_an_error(self):
        (self.root / "README.md").write_text("\n")
        done = self.status()
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no ELF file", done.stderr)


class Archive(Directory):
    def setUp(self):
        super().setUp()
        if shutil.which("zstd") is None:
            self.skipTest("zstd is not installed")
        (self.root / "mccs-1").mkdir()
        (self.root / "mccs-1/VERSION").write_text("version: 1\n")
        self.archive = self.root / "mccs-1.tar.zst"
        subprocess.run(f"tar c mccs-1 | zstd -q -o {self.archive.name} && sha256sum {self.archive.name} >{self.archive.name}.sha256",
                       shell=True, cwd=self.root, check=True)

    def results(self, max_mib):
        return [result.result for result in verify.check_archive(self.archive, max_mib)]

    def test_size_and_hash_are_compared(self):
        self.assertEqual(self.results(1), ["passed", "passed"])
        self.assertEqual(self.results(0), ["FAILED", "passed"])
        with self.archive.open("ab") as file:
            file.write(b"x")
        self.assertEqual(self.results(1), ["passed", "FAILED"])

    def test_the_content_is_unpacked(self):
        into = self.root / "into"
        into.mkdir()
        self.assertEqual(verify.unpack(self.archive, into), into / "mccs-1")
        self.assertEqual((into / "mccs-1/VERSION").read_text(), "version: 1\n")


class Roots(unittest.TestCase):
    def root(self, release):
        directory = tempfile.TemporaryDirectory(prefix="mccs-root-")
        self.addCleanup(directory.cleanup)
        file = pathlib.Path(directory.name) / roots.RELEASE_FILE
        file.parent.mkdir()
        file.write_text(release)
        return pathlib.Path(directory.name)

    def test_a_rebuild_of_rhel_9_is_known_by_its_platform(self):
        rebuild = self.root('NAME="AlmaLinux"\nPRETTY_NAME="AlmaLinux 9.4"\nPLATFORM_ID="platform:el9"\n')
        self.assertEqual(roots.name_of(rebuild), "AlmaLinux 9.4")
        self.assertTrue(roots.is_rhel_9(rebuild))
        self.assertFalse(roots.is_rhel_9(self.root("PRETTY_NAME='RHEL 9 lookalike'\n")))

    def test_a_directory_without_an_installation_is_rejected(self):
        with self.assertRaisesRegex(argparse.ArgumentTypeError, "etc/os-release"):
            verify.installation("/nonexistent")


if __name__ == "__main__":
    cases.main()
