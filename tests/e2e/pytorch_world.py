"""PyTorch programs on a lab."""
import os
import sys
import unittest

from lab_world import ROOT, Lab, call, environment

sys.path.insert(0, str(ROOT / "tests"))
import torch_world  # noqa: E402


def require_pytorch():
    """Skips the test with a message if PyTorch cannot run."""
    reason = torch_world.skip_reason()
    if reason:
        raise unittest.SkipTest(reason)


def require_package(name):
    """Skips the test with a message if PyTorch's environment lacks the package."""
    found = call(torch_world.python(), "-c", f"import importlib.util as u, sys; sys.exit(u.find_spec('{name}') is None)")
    if found.returncode != 0:
        raise unittest.SkipTest(f"no {name} in {torch_world.environment()}; scripts/setup_pytorch installs it")


def pytorch_environment(**changes):
    """The caller's environment, with PyTorch's programs first in PATH."""
    path = f"{torch_world.environment() / 'bin'}:{os.environ.get('PATH', '')}"
    return environment(PATH=path, **changes)


class LabTestCase(unittest.TestCase):
    """Tests that share a lab of two hosts with `gpus` GPUs each."""
    gpus: int
    # Importing PyTorch takes seconds, and the processors are shared.
    timeout_s = 500

    @classmethod
    def setUpClass(cls):
        require_pytorch()
        cls.lab = Lab(hosts=2, gpus=cls.gpus, name=cls.__name__.lower())
        cls.addClassCleanup(cls.lab.down)

    def run_on_lab(self, *command, options=(), **variables):
        return self.lab.run(*command, options=options, env=pytorch_environment(**variables), timeout=self.timeout_s)

    def exec_on_lab(self, host, *command, **variables):
        return self.lab.exec(host, *command, env=pytorch_environment(**variables), timeout=self.timeout_s)
