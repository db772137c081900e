"""The machine: GPU, driver, toolkit, PyTorch, kernel."""
import os
import pathlib
import platform
import shutil
import subprocess

from results import Failed

QUERY = {"GPU": "name", "driver": "driver_version", "memory": "memory.total", "memory in use": "memory.used",
         "compute mode": "compute_mode", "MIG": "mig.mode.current", "ECC": "ecc.mode.current",
         "SM clock, maximum": "clocks.max.sm", "memory clock, maximum": "clocks.max.memory",
         "power limit": "power.limit"}
TORCH_VERSION = "import importlib.metadata as m; print(m.version('torch'))"
SANITIZERS = ("/usr/local/cuda/bin/compute-sanitizer", "/usr/local/cuda/compute-sanitizer/compute-sanitizer",
              "/opt/cuda/bin/compute-sanitizer")


def first_line_of(*command):
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip().splitlines()[-1] if found.returncode == 0 and found.stdout.strip() else None


def tool(name):
    """The path of a tool of the CUDA toolkit, or None."""
    path = shutil.which(name) or f"/usr/local/cuda/bin/{name}"
    return path if os.access(path, os.X_OK) else None


def sanitizer():
    found = shutil.which("compute-sanitizer")
    return found or next((path for path in SANITIZERS if os.access(path, os.X_OK)), None)


def mps_runs():
    """Whether the control daemon of MPS runs on this machine."""
    for name in pathlib.Path("/proc").glob("[0-9]*/comm"):
        try:
            if name.read_text().startswith("nvidia-cuda-mps"):
                return True
        except OSError:
            continue
    return False


def facts_of_gpu(check):
    environment = check.environment
    shown = check.run("nvidia-smi", ["nvidia-smi", "-i", environment.gpu, f"--query-gpu={','.join(QUERY.values())}",
                                     "--format=csv,noheader"], environment.cuda(), 10).expect()
    line = shown.strip().splitlines()[-1]
    return dict(zip(QUERY, (value.strip() for value in line.split(",")), strict=True))


def check_machine(check):
    """Reports the GPU, its driver and modes, the toolkit, PyTorch and the kernel."""
    environment = check.environment
    version = first_line_of(tool("nvcc") or "nvcc", "--version")
    memory_kib = pathlib.Path("/proc/meminfo").read_text().split()[1]
    facts = {"kernel": platform.release(), "glibc": platform.libc_ver()[1], "processors": os.cpu_count(),
             "host memory": f"{int(memory_kib) // 1024} MiB", "python": platform.python_version(),
             "PyTorch": first_line_of(environment.python, "-c", TORCH_VERSION), "nvcc": version,
             "compute-sanitizer": sanitizer(), "cudart": str(environment.cudart or "none"),
             "NCCL": str(environment.nccl or "none"), "MPS": "runs" if mps_runs() else "does not run"}
    check.machine.update(facts)
    if environment.emulated:
        check.machine["GPU"] = "emulated on host memory"
    else:
        if not shutil.which("nvidia-smi"):
            raise Failed("no nvidia-smi: is NVIDIA's driver installed?")
        check.machine.update(facts_of_gpu(check))
        check.run("nvidia-smi-q", ["nvidia-smi", "-i", environment.gpu, "-q"], environment.cuda(), 5)  # for its log
        if not environment.cudart:
            raise Failed("libcudart.so.13 was not found in LD_LIBRARY_PATH, PyTorch or the CUDA toolkit")
    for name, value in check.machine.items():
        check.note(f"{name}: {value}")
    if check.machine.get("compute mode", "Default") != "Default":
        check.note("the compute mode allows one process only: jobs of several processes will fail")
    return ", ".join(str(check.machine[name]) for name in ("GPU", "driver", "memory", "MIG") if name in check.machine)
