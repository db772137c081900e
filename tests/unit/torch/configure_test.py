#!/usr/bin/env python3
"""CMake adds the target mccs_torch as soon as scripts/setup_pytorch has created the environment."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
import cases  # noqa: E402

# A minimal tree with the targets that emulation/torch needs.
PROJECT = f"""
cmake_minimum_required(VERSION 3.25)
project(tree LANGUAGES CXX)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
foreach(needed mccs_cuda_headers mccs_emulated_cuda mccs_emulated_cudart)
  add_library(${{needed}} INTERFACE)
endforeach()
add_subdirectory({ROOT}/emulation/torch torch)
"""


class Configure(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="mccs-configure-")
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        (self.root / "CMakeLists.txt").write_text(PROJECT)
        self.environment = self.root / "build/pytorch"

    def cmake(self, *arguments):
        variables = {name: value for name, value in os.environ.items() if name != "MCCS_PYTORCH_ENV"}
        ran = subprocess.run(["cmake", *arguments], cwd=self.root, env=variables, capture_output=True, text=True,
                             timeout=100)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        return ran.stdout

    def targets(self):
        return self.cmake("--build", "build/release", "--target", "help")

    def install_packages(self):
        headers = self.environment / "lib/python3.11/site-packages/torch/include/ATen"
        headers.mkdir(parents=True)
        (headers / "ATen.h").touch()

    def test_a_tree_configured_before_the_environment_gets_the_target_with_the_next_build(self):
        self.cmake("-G", "Ninja", "-B", "build/release")
        self.assertNotIn("mccs_torch", self.targets())
        self.install_packages()
        self.assertNotIn("mccs_torch", self.targets(), "the environment is not complete yet")
        (self.environment / "mccs-recipe").touch()
        self.assertIn("mccs_torch", self.targets())


if __name__ == "__main__":
    cases.main()
