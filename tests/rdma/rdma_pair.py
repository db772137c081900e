"""Two virtual machines with an Ethernet link between their RDMA devices, each with a shell, and a capture of the link."""
import pathlib
import re
import socket
import struct
import time

from rdma_vm import ROOT, RUNS, Machine

BIN = ROOT / "build/bin"
LIB = ROOT / "build/lib"
PROGRAMS = [BIN / name for name in ("mccsd", "mccs-controller", "mccsctl", "collective_perf", "conformance",
                                    "training_job")]
LIBRARIES = [LIB / "libnccl.so.2", LIB / "libmccs-free-hooks.so", *sorted((LIB / "emulation").glob("*.so*"))]
ROCE_PORT = 4791
# A shell on the second serial line, for commands from outside.
SHELL = "stty -F /dev/ttyS1 raw -echo && sh /dev/ttyS1 </dev/null >/dev/ttyS1 2>&1"


def connect(path, limit_s=60):
    deadline = time.monotonic() + limit_s
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(path))
            return connection
        except OSError:
            connection.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


class Shell:
    """Runs commands in a machine, one at a time."""

    def __init__(self, path):
        self.connection = connect(path)
        self.commands = 0

    def start(self, command):
        """Sends a command. Returns what `finish` needs."""
        self.commands += 1
        self.connection.sendall(f"{{ {command}\n}} 2>&1; echo \"@@{self.commands} $?\"\n".encode())
        return self.commands

    def finish(self, number, limit_s):
        """Returns (status, output); status None: the command has not ended in time."""
        output = b""
        end = re.compile(rb"@@%d (\d+)\r?\n" % number)
        deadline = time.monotonic() + limit_s
        while (found := end.search(output)) is None:
            self.connection.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                got = self.connection.recv(1 << 16)
            except TimeoutError:
                got = b""
            if not got:
                return None, output.decode(errors="replace")
            output += got
        text = output[:found.start()].decode(errors="replace").replace("\r", "")
        return int(found[1]), text

    def run(self, command, limit_s=60):
        return self.finish(self.start(command), limit_s)


class Monitor:
    """QEMU's monitor: the link of a machine."""

    def __init__(self, path):
        self.connection = connect(path)

    def set_link(self, up):
        self.connection.sendall(f"set_link net0 {'on' if up else 'off'}\n".encode())
        time.sleep(0.02)


class Pair:
    """h1 (10.77.0.1) and h2 (10.77.0.2)."""

    ADDRESSES = ("10.77.0.1", "10.77.0.2")

    def __init__(self, kernel):
        # One connection, made here: QEMU does not notice that its own attempt to connect is refused.
        self.cable = socket.socketpair()
        self.capture = RUNS / "capture.pcap"
        self.capture.parent.mkdir(parents=True, exist_ok=True)
        self.machines = []
        for index, address in enumerate(self.ADDRESSES):
            name = f"h{index + 1}"
            end = self.cable[index].fileno()
            run = RUNS / name
            options = ["-serial", f"unix:{run}/shell,server=on,wait=off",
                       "-monitor", f"unix:{run}/monitor,server=on,wait=off"]
            if index == 0:
                options += ["-object", f"filter-dump,id=dump,netdev=net0,file={self.capture},maxlen=128"]
            self.machines.append(Machine(
                kernel, name, SHELL, PROGRAMS, address, (f"socket,id=net0,fd={end},mac=52:54:00:77:00:0{index + 1}",),
                memory_mib=1536, own_libraries=LIBRARIES, options=options, descriptors=(end,)))
        self.shells, self.monitors = [], []

    def __enter__(self):
        for machine in self.machines:
            machine.start()
        for end in self.cable:
            end.close()
        for machine in self.machines:
            machine.await_ready()
            self.shells.append(Shell(machine.directory / "shell"))
            self.monitors.append(Monitor(machine.directory / "monitor"))
        return self

    def __exit__(self, *_):
        for machine in self.machines:
            machine.stop()

    def flows(self):
        """{(from address, source port, queue pair at the receiver): packets} of RoCE v2, from the capture."""
        data = pathlib.Path(self.capture).read_bytes()
        flows = {}
        at = 24
        while at + 16 <= len(data):
            length = struct.unpack_from("<I", data, at + 8)[0]
            packet = data[at + 16:at + 16 + length]
            at += 16 + length
            if len(packet) < 54 or packet[12:14] != b"\x08\x00" or packet[23] != 17:
                continue
            header = 14 + 4 * (packet[14] & 15)
            source, target = struct.unpack_from(">HH", packet, header)
            if target != ROCE_PORT:
                continue
            queue_pair = int.from_bytes(packet[header + 13:header + 16], "big")
            key = (socket.inet_ntoa(packet[26:30]), source, queue_pair)
            flows[key] = flows.get(key, 0) + 1
        return flows
