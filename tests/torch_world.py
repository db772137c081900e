"""Runs a test program in PyTorch's environment on emulated GPUs, or reports it as skipped without one."""
import os
import pathlib
import sys
import unittest

import cases

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIB = pathlib.Path(os.environ.get("MCCS_TEST_BIN", ROOT / "build/bin")).parent / "lib"
EMULATION = [LIB / "emulation" / name for name in ("libcudart.so.13", "libcuda.so.1", "libnvidia-ml.so.1")]
EXTENSION = LIB / "emulation/libmccs_torch.so"


def environment():
    """The environment's directory: MCCS_PYTORCH_ENV, or by default where scripts/setup_pytorch creates it."""
    return pathlib.Path(os.environ.get("MCCS_PYTORCH_ENV") or ROOT / "build/pytorch")


def python():
    return environment() / "bin/python"


def skip_reason():
    """The reason why PyTorch cannot run here, or None."""
    if not python().exists():
        return f"no PyTorch in {environment()}; run scripts/setup_pytorch"
    if not EXTENSION.exists():
        return f"{EXTENSION} does not exist (sanitizer builds do not build it); run scripts/build release"
    return None


def preload():
    return ":".join(map(str, EMULATION))


def enter(gpus=2):
    """Restarts the calling program in PyTorch's interpreter with emulated GPUs and returns there. If that is
    impossible, replaces its tests with one skipped test."""
    if os.environ.get("MCCS_TEST_IN_PYTORCH"):
        return True
    reason = skip_reason()
    if reason is None:
        os.execve(python(), [str(python()), *sys.argv],
                  {**os.environ, "MCCS_TEST_IN_PYTORCH": "1", "LD_PRELOAD": preload(),
                   "MCCS_EMULATED_GPUS": str(gpus), "OMP_NUM_THREADS": "1"})

    class PyTorch(unittest.TestCase):
        @unittest.skip(reason)
        def test_needs_its_environment(self):
            pass

    sys.modules["__main__"].PyTorch = PyTorch
    cases.main()
    return False
