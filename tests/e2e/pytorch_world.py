"""PyTorch programs on a lab."""
import os
import sys
import unittest

from lab_world import ROOT, environment

sys.path.insert(0, str(ROOT / "tests"))
import torch_world  # noqa: E402


def need_pytorch():
    """Skips the test, aloud, where PyTorch cannot run."""
    reason = torch_world.why_not()
    if reason:
        raise unittest.SkipTest(reason)


def pytorch_environment(**changes):
    """The caller's, with PyTorch's programs found first."""
    path = f"{torch_world.environment() / 'bin'}:{os.environ.get('PATH', '')}"
    return environment(PATH=path, **changes)
