"""What the benchmarks that start programs have in common."""
import os
import pathlib
import platform
import re
import subprocess


def call(*arguments, timeout_s=120, env=None, text_in=None):
    """Returns the standard output of a program; RuntimeError with all that it printed if it fails."""
    result = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=timeout_s,
                            input=text_in, stdin=None if text_in is not None else subprocess.DEVNULL, env=env)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, arguments))}: exit status {result.returncode}\n"
                           f"{result.stdout}{result.stderr}")
    return result.stdout


def machine():
    """This machine's processor and number of cores, as the results name it."""
    found = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return f"{found.group(1) if found else platform.machine()}, {os.cpu_count()} cores"
