"""A lab of virtual machines, as its users run it. Each check returns a line for the summary."""
import os
import pathlib
import re
import subprocess
import time

from rdma_service import Failed, expect
from rdma_vm import ROOT

BIN = ROOT / "build/bin"
NAME = "rdma-test"
DIRECTORY = pathlib.Path(f"/tmp/mccs-lab-{os.getuid()}-{NAME}")
COLLECTIVE = (BIN / "collective_perf", "--op", "all_reduce", "-b", "8", "-e", "64K", "-f", "64", "-n", "1", "-w", "0")


def qemu_processes():
    """Process ids of the lab's virtual machines."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if b"qemu" in words and f"LAB_DIRECTORY={DIRECTORY} ".encode() in words:
            found.append(int(path.parent.name))
    return found


class Lab:
    CHECKS = ("up", "exec", "run", "reports", "cancel", "down")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run([BIN / "mccs-lab", "down", "--name", NAME], capture_output=True, check=False)

    def command(self, *words, status=0, limit_s=60):
        """Runs `mccs-lab WORD --name NAME ...`. Returns its output."""
        line = [str(word) for word in (BIN / "mccs-lab", words[0], "--name", NAME, *words[1:])]
        try:
            ended = subprocess.run(line, capture_output=True, text=True, timeout=limit_s, check=False)
        except subprocess.TimeoutExpired as late:
            raise Failed(f"{' '.join(line)} did not end within {limit_s} s") from late
        expect(ended.returncode == status,
               f"{' '.join(line)} ended with {ended.returncode}: {ended.stdout[-1500:]}{ended.stderr[-1500:]}")
        return ended.stdout

    def check_up(self):
        """two virtual machines boot"""
        output = self.command("up", "--network", "rdma-vms", "--hosts", "2", limit_s=240)
        expect("2 virtual machines with 1 GPU each" in output, output)
        return output

    def check_exec(self):
        """programs run in the machines, with their own host names, exit statuses and RDMA devices"""
        expect(self.command("exec", "h1", "--", "sh", "-c", "hostname; exit 7", status=7) == "h1\n", "no host name")
        expect("state ACTIVE" in self.command("exec", "h1", "--", "rdma", "link"), "no RDMA device")
        hosts = self.command("exec", "h0", "--", BIN / "mccsctl", "get", "hosts")
        expect(hosts.count("rdma (rxe0/1 at 10.77.0.") == 2, hosts)
        return "both daemons use RDMA"

    def check_run(self):
        """a job runs over RDMA"""
        output = self.command("run", "--", *COLLECTIVE, limit_s=120)
        expect("[0] # Out of bounds values : 0 OK" in output, output)
        sent = self.command("exec", "h0", "--", "grep", ".", "/sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts")
        expect(int(sent) > 10, f"the RDMA device sent {sent} packets")
        return f"collective_perf; the RDMA device of h0 sent {sent.strip()} packets"

    def check_reports(self):
        """logs and status show the daemons"""
        expect("is ready" in self.command("logs", "h1"), "the log of h1 does not have 'is ready'")
        expect("host h1 registered" in self.command("logs", "controller"), "the controller's log lacks h1")
        status = self.command("status")
        expect(len(re.findall(r"(?m)ready$", status)) == 3, status)
        return "logs and status"

    def check_cancel(self):
        """a job that is killed leaves no process in a machine"""
        job = subprocess.Popen([BIN / "mccs-lab", "run", "--name", NAME, "--", "sleep", "1234"])
        counting = ("exec", "h1", "--", "sh", "-c", "pgrep -c -x sleep; true")
        self.await_output(counting, "1\n")
        job.kill()
        job.wait()
        self.await_output(counting, "0\n")
        return "kill -9 of mccs-lab run"

    def await_output(self, words, wanted, limit_s=30):
        deadline = time.monotonic() + limit_s
        while (output := self.command(*words)) != wanted:
            expect(time.monotonic() < deadline, f"{words}: {output!r} instead of {wanted!r}")

    def check_down(self):
        """down leaves nothing"""
        expect(len(qemu_processes()) == 2, f"processes of QEMU: {qemu_processes()}")
        self.command("down")
        expect(not qemu_processes(), f"processes of QEMU are left: {qemu_processes()}")
        expect(not DIRECTORY.exists(), f"{DIRECTORY} is left")
        return "no process, no file"
