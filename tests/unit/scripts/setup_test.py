#!/usr/bin/env python3
"""The choice of the CUDA toolkit, scripts/setup without one, and the packages that scripts/setup_pytorch adds to
PyTorch's environment."""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
import cases  # noqa: E402

# Nothing listens on this port: pip's connections are refused immediately.
UNREACHABLE_INDEX = "http://127.0.0.1:9/simple"
TIME_LIMIT_S = 20


class Tree(unittest.TestCase):
    """A copy of scripts/ in a temporary directory, with only the files that a test adds."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="mccs-setup-")
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        shutil.copytree(ROOT / "scripts", self.root / "scripts")

    def toolkit(self, place, headers=("cuda_runtime.h", "nccl.h"), compiler=True):
        directory = self.root / place
        (directory / "include").mkdir(parents=True)
        if compiler:
            (directory / "bin").mkdir()
            (directory / "bin" / "nvcc").touch(mode=0o755)
        for header in headers:
            (directory / "include" / header).touch()
        return directory

    def run_script(self, name, **variables):
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("CUDA", "MCCS", "PIP"))}
        return subprocess.run([self.root / "scripts" / name], env={**environment, **variables}, capture_output=True,
                              text=True, timeout=60)


class CudaHome(Tree):
    def test_mccs_cuda_home_takes_precedence(self):
        asked_for, other = self.toolkit("asked"), self.toolkit("other")
        found = self.run_script("cuda_home", MCCS_CUDA_HOME=str(asked_for), CUDA_HOME=str(other))
        self.assertEqual(found.stdout.strip(), str(asked_for))

    def test_cuda_home_precedes_build_cuda(self):
        self.toolkit("build/cuda")
        installed = self.toolkit("installed")
        self.assertEqual(self.run_script("cuda_home", CUDA_HOME=str(installed)).stdout.strip(), str(installed))

    def test_none_ignores_installed_toolkits(self):
        installed, fetched = self.toolkit("installed"), self.toolkit("build/cuda")
        found = self.run_script("cuda_home", MCCS_CUDA_HOME="none", CUDA_HOME=str(installed))
        self.assertEqual(found.stdout.strip(), str(fetched))

    def test_a_directory_without_the_compiler_is_rejected(self):
        half = self.toolkit("half", compiler=False)
        found = self.run_script("cuda_home", MCCS_CUDA_HOME=str(half))
        self.assertEqual(found.returncode, 1)
        self.assertIn("bin/nvcc", found.stderr)

    def test_a_directory_without_the_headers_is_rejected(self):
        half = self.toolkit("half", headers=["nccl.h"])
        found = self.run_script("cuda_home", MCCS_CUDA_HOME=str(half))
        self.assertEqual(found.returncode, 1)
        self.assertIn(str(half), found.stderr)
        self.assertIn("run scripts/setup", found.stderr)


class Setup(Tree):
    def setUp(self):
        super().setUp()
        if shutil.which("dpkg-query") is None:
            self.skipTest("no dpkg-query: scripts/setup supports Debian only")

    def test_installed_packages_are_not_changed(self):
        fetched = self.toolkit("build/cuda")
        shutil.copy(ROOT / "scripts/cuda_packages.txt", fetched / "packages.txt")
        done = self.run_script("setup", MCCS_CUDA_HOME="none", PIP_INDEX_URL=UNREACHABLE_INDEX)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"CUDA toolkit at {fetched}", done.stdout)

    def test_an_unreachable_index_is_an_error_with_a_remedy(self):
        began = time.monotonic()
        done = self.run_script("setup", MCCS_CUDA_HOME="none", PIP_INDEX_URL=UNREACHABLE_INDEX, PIP_CONFIG_FILE="/dev/null")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("from PyPI", done.stderr)
        self.assertIn("set CUDA_HOME", done.stderr)
        self.assertLess(time.monotonic() - began, TIME_LIMIT_S)
        self.assertFalse((self.root / "build/cuda").exists(), "an incomplete toolkit is left")
        self.assertFalse((self.root / "build/cuda.partial").exists())

    def test_changed_pins_are_installed_again(self):
        fetched = self.toolkit("build/cuda")
        (fetched / "packages.txt").write_text("older\n")
        done = self.run_script("setup", MCCS_CUDA_HOME="none", PIP_INDEX_URL=UNREACHABLE_INDEX, PIP_CONFIG_FILE="/dev/null")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("from PyPI", done.stderr)

    def test_a_named_directory_is_not_replaced(self):
        done = self.run_script("setup", MCCS_CUDA_HOME=str(self.root / "nowhere"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("nowhere", done.stderr)


class ExamplePackages(Tree):
    """A complete environment with a fake pip that records its calls."""

    def setUp(self):
        super().setUp()
        self.sources = self.root / "emulation/torch/environment"
        shutil.copytree(ROOT / "emulation/torch/environment", self.sources)
        self.requirements = self.root / "examples/pytorch/requirements.txt"
        self.requirements.parent.mkdir(parents=True)
        self.requirements.write_text("accelerate==1.15.0\n")
        self.environment = self.root / "build/pytorch"
        (self.environment / "bin").mkdir(parents=True)
        recipe = b"".join((self.sources / name).read_bytes() for name in ("requirements.txt", "stub_libraries.py"))
        (self.environment / "mccs-recipe").write_text(hashlib.sha256(recipe).hexdigest() + "\n")
        self.write_program("python", "exit 1")
        self.write_program("pip", 'echo "$@" >>"$0.calls"')

    def write_program(self, name, script):
        program = self.environment / "bin" / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def calls(self):
        calls = self.environment / "bin/pip.calls"
        return calls.read_text().splitlines() if calls.exists() else []

    def test_a_complete_environment_gets_them_once(self):
        for _ in range(2):
            done = self.run_script("setup_pytorch")
            self.assertEqual(done.returncode, 0, done.stderr)
        call, = self.calls()
        self.assertIn("-r examples/pytorch/requirements.txt", call)

    def test_the_packages_of_all_examples_are_installed_together(self):
        other = self.root / "examples/nccl4py/requirements.txt"
        other.parent.mkdir()
        other.write_text("nccl4py==0.6.0\n")
        for _ in range(2):
            self.run_script("setup_pytorch")
        call, = self.calls()
        self.assertIn("-r examples/nccl4py/requirements.txt -r examples/pytorch/requirements.txt", call)

    def test_other_versions_are_installed(self):
        self.run_script("setup_pytorch")
        self.requirements.write_text("accelerate==1.16.0\n")
        self.run_script("setup_pytorch")
        self.assertEqual(len(self.calls()), 2)

    def test_no_index_leaves_pytorch_usable_and_is_reported(self):
        self.write_program("pip", "echo WARNING: Retrying after connection broken by NewConnectionError; exit 1")
        done = self.run_script("setup_pytorch")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("examples/pytorch/requirements.txt do not run", done.stderr)
        self.assertFalse((self.environment / "mccs-examples").exists())

    def test_another_error_of_pip_fails_the_script(self):
        self.write_program("pip", "echo ERROR: no space left on device; exit 1")
        done = self.run_script("setup_pytorch")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("pip could not install examples/pytorch/requirements.txt", done.stderr)

    def test_the_callers_environment_is_not_changed(self):
        done = self.run_script("setup_pytorch", MCCS_PYTORCH_ENV=str(self.environment))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("lacks packages of examples/pytorch/requirements.txt", done.stderr)
        self.assertEqual(self.calls(), [])


if __name__ == "__main__":
    cases.main()
