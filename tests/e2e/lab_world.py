"""Labs for tests: started in the constructor, stopped at the end even after failures."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import cases  # noqa: E402,F401  (the tests' main)

BIN = pathlib.Path(os.environ.get("MCCS_TEST_BIN", ROOT / "build/bin"))
LIB = BIN.parent / "lib"
SANITIZED = bool(os.environ.get("MCCS_TEST_SANITIZE"))
# mccs-lab reads it too: kernels of the programs' own processes run the collectives, on emulated GPUs.
ON_KERNELS = os.environ.get("MCCS_GPU") == "emulated"

# Longer than any step of these tests takes: a longer one hangs.
TIMEOUT_S = 180
# Time limit for detecting a death, with an allowance for sanitizers.
DETECTION_LIMIT_S = 1.0 + (1.0 if SANITIZED else 0.0)


def require_built(*names):
    """Skips the test with a message if a program or library is not built."""
    for name in names:
        path = BIN / name
        if not path.exists():
            raise unittest.SkipTest(f"{path} is not built; run scripts/build")


def program(name):
    require_built(name)
    return str(BIN / name)


def environment(**changes):
    """The caller's environment without variables of jobs, labs and preloaded libraries."""
    result = dict(os.environ)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LD_PRELOAD", "MCCS_SOCKET", "MCCS_CONTROLLER",
                 "MCCS_TLS"):
        result.pop(name, None)
    result.update(changes)
    return result


def foreign_environment(**changes):
    """As environment(), for programs outside the product, which may leak."""
    return environment(ASAN_OPTIONS="detect_leaks=0", **changes)


def call(*arguments, timeout=TIMEOUT_S, env=None):
    """Runs a program to its end and captures both outputs as text."""
    return subprocess.run([str(argument) for argument in arguments], capture_output=True, text=True,
                          timeout=timeout, env=env or environment(), stdin=subprocess.DEVNULL)


def json_of(*arguments):
    """What a program prints, which must succeed."""
    done = call(*arguments)
    if done.returncode != 0:
        raise AssertionError(f"exit status {done.returncode} of {arguments}:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def process_has_ended(pid):
    """Whether a process has ended, reaped or not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def eventually(condition, timeout=TIMEOUT_S):
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


class Lab:
    """`hosts` with `gpus` each, or a topology file; mccsd_config: a file for every daemon; tenants: with a socket
    each; env: of the daemons.
    REQUIRES: one name per lab that is up at the same time."""

    def __init__(self, hosts=None, gpus=None, name="e2e", topology=None, network="namespaces", mccsd_config=None,
                 tenants=None, env=None):
        require_built("mccs-lab", "mccsd", "mccs-controller", "../lib/libnccl.so.2",
             "../lib/emulation/libcuda.so.1", "../lib/emulation/libcudart.so.13",
             "../lib/emulation/libnvidia-ml.so.1")
        self.name = f"{name}-{os.getpid()}"
        self.directory = pathlib.Path(f"/tmp/mccs-lab-{os.getuid()}-{self.name}")
        up = self.command("up", *(["--topology", topology, "--network", network] if topology else
                                  ["--hosts", hosts, "--gpus", gpus]),
                          *(["--mccsd-config", mccsd_config] if mccsd_config else []),
                          *(["--tenants", tenants] if tenants else []), env=env)
        if up.returncode == 77:
            raise unittest.SkipTest(up.stderr.strip())
        if up.returncode != 0:
            raise AssertionError(f"mccs-lab up: {up.stderr}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.down()

    def down(self):
        return self.command("down")

    def command(self, name, *arguments, **options):
        return call(program("mccs-lab"), name, "--name", self.name, *arguments, **options)

    def run(self, *arguments, options=(), **call_options):
        return self.command("run", *options, "--", *arguments, **call_options)

    def exec(self, host, *arguments, **call_options):
        return self.command("exec", host, "--", *arguments, **call_options)

    def start(self, *arguments, options=(), env=None):
        return Running([program("mccs-lab"), "run", "--name", self.name, *map(str, options), "--",
                        *map(str, arguments)], env or environment())

    def daemons(self):
        """The entry of `mccs-lab status` for each daemon, by name."""
        lab, = json.loads(self.command("status", "-o", "json").stdout)
        return {daemon["name"]: daemon for daemon in lab["daemons"]}

    def mccsctl(self):
        """The command line of mccsctl for an operator outside the lab, without arguments."""
        return [program("mccsctl"), "--controller", self.daemons()["controller"]["endpoint"],
                "--tls", str(self.directory / "certificates/operators/admin")]

    def logs(self):
        return "\n".join(f"-- {name}\n" + self.command("logs", name).stdout for name in self.daemons())


class Running:
    """A job in the background, with its output."""

    def __init__(self, arguments, env):
        self._process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                         stdin=subprocess.DEVNULL, env=env)
        os.set_blocking(self._process.stdout.fileno(), False)
        self._bytes = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self.wait()
        self._process.stdout.close()

    @property
    def output(self):
        """Everything that it has printed so far."""
        while not self._process.stdout.closed:
            try:
                piece = os.read(self._process.stdout.fileno(), 1 << 16)
            except BlockingIOError:
                break
            if not piece:
                break
            self._bytes += piece
        return self._bytes.decode(errors="replace")

    def has_ended(self):
        # Read the output too: a full pipe would block the job.
        return self._process.poll() is not None and self.output is not None

    def has_printed(self, text, times=1):
        """Waits until the output contains the text `times` times. False if the job ends before."""
        eventually(lambda: self.output.count(text) >= times or self.has_ended())
        return self.output.count(text) >= times

    def wait(self):
        """Waits for the end and returns the exit status; `output` is complete."""
        if not eventually(lambda: self.output is not None and self.has_ended()):
            self._process.kill()
        return self._process.wait()

    def ranks(self):
        """Pids of the ranks, in the order of their start."""
        children = pathlib.Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return sorted(int(pid) for pid in children.read_text().split())

    def lines(self, prefix):
        """(rank, words) of each line whose text after "[rank] " starts with `prefix`."""
        for line in self.output.splitlines():
            rank, _, text = line.partition("] ")
            if rank.startswith("[") and text.startswith(prefix):
                yield int(rank[1:]), text.split()
