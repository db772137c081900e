"""Libraries of the machine, and the variables of programs that run with them."""
import glob
import os
import pathlib
import shutil
import subprocess
import sys

CUDART, NCCL = "libcudart.so.13", "libnccl.so.2"
# Variables of the caller that would change what programs use.
DROPPED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LD_PRELOAD",
           "CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_MAX_CONNECTIONS")
DROPPED_PREFIXES = ("MCCS_", "NCCL_", "TORCH_NCCL_")
# Streams of several ranks of one process share the hardware queues of the GPU. A copy behind a rank's collective blocks
# its queue, and so another rank's collective in it (docs/decisions/0025-waiting-kernel.md). This is the largest
# number of queues.
QUEUES = "32"
TOOLKITS = ("/usr/local/cuda", "/usr/local/cuda-13*", "/opt/cuda")
TOOLKIT_LIBRARIES = ("lib64", "lib", "targets/x86_64-linux/lib")
# Prints PyTorch's directory without importing it.
TORCH_DIRECTORY = """
import importlib.util
spec = importlib.util.find_spec("torch")
print(list(spec.submodule_search_locations)[0] if spec else "")
"""
SYSTEM = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib")


def torch_directory(python):
    """The directory with PyTorch and NVIDIA's libraries beside it, or None."""
    try:
        found = subprocess.run([python, "-c", TORCH_DIRECTORY], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    path = found.stdout.strip()
    return pathlib.Path(path) if found.returncode == 0 and path else None


def python_with_torch():
    """The first interpreter that has PyTorch: this one, or one of PATH. Without any, this one."""
    candidates = [sys.executable, *filter(None, map(shutil.which, ("python3", "python")))]
    return next(filter(torch_directory, candidates), sys.executable)


def find_library(name, torch, variables=os.environ):
    """The path of a library of the machine: the caller's, then PyTorch's, then the toolkit's, then the system's."""
    patterns = [directory for directory in variables.get("LD_LIBRARY_PATH", "").split(":") if directory]
    if torch:
        patterns += [f"{torch.parent}/nvidia/*/lib", f"{torch}/lib"]
    homes = [variables[key] for key in ("CUDA_HOME", "CUDA_PATH") if variables.get(key)]
    patterns += [f"{home}/{sub}" for home in (*homes, *TOOLKITS) for sub in TOOLKIT_LIBRARIES]
    for pattern in (*patterns, *SYSTEM):
        for path in sorted(glob.glob(f"{pattern}/{name}")):
            return pathlib.Path(path).resolve()
    return None


class Environment:
    """Variables for programs. `directory`: for temporary files, and for links to single libraries of the machine: the
    directory that has one may have others, which must not be found."""

    def __init__(self, package, emulated, socket, directory, python):
        self._package = package
        self._socket = socket
        self._temporary = directory / "tmp"
        self._temporary.mkdir(parents=True)
        self.emulated = emulated
        self.python = python or python_with_torch()
        # One GPU, also where there are more: its index or UUID.
        self.gpu = (os.environ.get("CUDA_VISIBLE_DEVICES") or "0").split(",")[0]
        self.torch = torch_directory(self.python)
        self.cudart = None if emulated else find_library(CUDART, self.torch)
        self.nccl = None if emulated else find_library(NCCL, self.torch)
        self._cudart_directory = self._link(directory / "cudart", CUDART, self.cudart)
        self._nccl_directory = self._link(directory / "nccl", NCCL, self.nccl)

    @staticmethod
    def _link(directory, name, library):
        directory.mkdir(parents=True)
        if library:
            (directory / name).symlink_to(library)
        return directory

    def cuda(self, *libraries, **changes):
        """CUDA, and `libraries`, directories that come first."""
        kept = {name: value for name, value in os.environ.items()
                if name not in DROPPED and not name.startswith(DROPPED_PREFIXES)}
        directories = [*libraries, self._package.lib / "emulation" if self.emulated else self._cudart_directory]
        directories += [kept["LD_LIBRARY_PATH"]] if kept.get("LD_LIBRARY_PATH") else []
        kept["LD_LIBRARY_PATH"] = ":".join(map(str, directories))
        kept["CUDA_VISIBLE_DEVICES"] = self.gpu
        if self.emulated:
            kept.update(MCCS_EMULATED_GPUS="1", MCCS_EMULATED_HOST="gpu-check")
        kept.update(NCCL_MULTI_RANK_GPU_ENABLE="1", NCCL_SOCKET_IFNAME="lo", GLOO_SOCKET_IFNAME="lo",
                    OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1", TMPDIR=str(self._temporary))
        kept.update(changes)
        return kept

    def mccs(self, **changes):
        """A tenant of MCCS."""
        preload = ":".join(map(str, self._package.preload(self.emulated)))
        changes.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", QUEUES)
        return self.cuda(LD_PRELOAD=preload, MCCS_SOCKET=str(self._socket), **changes)

    def mccs_by_path(self, **changes):
        """A tenant of MCCS that finds the library by its path: for tools that preload libraries of their own."""
        return self.cuda(self._package.lib, CUDA_DEVICE_MAX_CONNECTIONS=QUEUES, MCCS_SOCKET=str(self._socket),
                         **changes)

    def real_nccl(self, **changes):
        """NVIDIA's library."""
        return self.cuda(self._nccl_directory, CUDA_DEVICE_MAX_CONNECTIONS=QUEUES, **changes)
