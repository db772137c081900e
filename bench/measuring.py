"""Common functions of benchmarks that start programs."""
import os
import pathlib
import platform
import re
import subprocess


def call(*arguments, patience_s=300):
    """Runs a program and returns its standard output. RuntimeError with its whole output if it fails."""
    result = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=patience_s,
                            stdin=subprocess.DEVNULL)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, arguments))}: exit status {result.returncode}\n"
                           f"{result.stdout}{result.stderr}")
    return result.stdout


def machine():
    """This machine's processor and number of cores, for results."""
    found = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return f"{found.group(1) if found else platform.machine()}, {os.cpu_count()} cores"
