"""Common functions of benchmarks that start programs."""
import os
import pathlib
import platform
import re
import subprocess


def call(*arguments, timeout_s=120, env=None, text_in=None):
    """Runs a program and returns its standard output. RuntimeError with its whole output if it fails."""
    result = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=timeout_s,
                            input=text_in, stdin=None if text_in is not None else subprocess.DEVNULL, env=env)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, arguments))}: exit status {result.returncode}\n"
                           f"{result.stdout}{result.stderr}")
    return result.stdout


def machine():
    """This machine's processor and number of cores, for results."""
    found = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return f"{found.group(1) if found else platform.machine()}, {os.cpu_count()} cores"
