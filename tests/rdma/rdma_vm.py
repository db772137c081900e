"""Virtual machines with an RDMA device that Debian's kernel emulates (rdma_rxe), each for one command.

A machine has no disk: its initramfs holds a kernel's modules, a few programs with their libraries, and an init that
runs one command and powers off. lab/rdma_vms/ has what it shares with the lab's machines.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "lab/rdma_vms"))
from debian_vm import Kernel, Unavailable, add_busybox, add_modules, pack, qemu_words  # noqa: E402

RUNS = ROOT / "build" / "rdma-vm"
TOOLS = ("ip", "rdma")

# Not of the machine: the project has its own (`libraries` of Machine).
OWN_LIBRARIES = ("libnccl", "libcuda", "libnvidia-ml")
INIT = """\
#!/bin/sh
export PATH=/bin:/usr/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /tmp /dev/shm
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /dev/shm
ulimit -l unlimited
while read -r module; do insmod "$module" || echo "rdma-vm: insmod $module failed"; done < /modules
# Otherwise the device's GIDs change when the link-local address is ready, seconds later.
echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6
ip link set lo up
ip link set eth0 mtu 4200 || true
ip address add {address}/24 dev eth0
ip link set eth0 up
rdma link add rxe0 type rxe netdev eth0 || echo "rdma-vm: no RDMA device"
for i in $(seq 50); do grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state && break; sleep 0.1; done
echo "rdma-vm: ready"
export LD_LIBRARY_PATH=/usr/lib/mccs
{command}
echo "rdma-vm: exit $?"
sync
poweroff -f
"""


def libraries(program):
    """Shared libraries of a program, and the dynamic linker."""
    shown = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
    found = [pathlib.Path(path) for path in re.findall(r"(/\S+) \(0x", shown)]
    return [path for path in found if not path.name.startswith(OWN_LIBRARIES)]


class Machine:
    """One virtual machine. Its console is the file `log`."""

    def __init__(self, kernel, name, command, files=(), address="10.77.0.1", network=("user,restrict=on",),
                 memory_mib=1024, own_libraries=(), options=(), descriptors=()):
        self.name = name
        self.kernel = kernel
        self.network = network
        self.memory_mib = memory_mib
        self.own_libraries = own_libraries
        self.options = options
        self.descriptors = descriptors  # that QEMU inherits
        self.directory = RUNS / name
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        self.log = self.directory / "console.log"
        self.initramfs = self._make_initramfs(command, files, address)
        self.process = None

    def _make_initramfs(self, command, files, address):
        root = self.directory / "root"
        for directory in ("proc", "sys", "dev", "etc/libibverbs.d", "usr/bin"):
            (root / directory).mkdir(parents=True)
        add_busybox(root, without=TOOLS)

        def add(source, target):
            target = root / str(target).lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                shutil.copy(source, target)

        programs = [(shutil.which(tool, path=os.environ["PATH"] + ":/sbin:/usr/sbin"), f"usr/bin/{tool}")
                    for tool in TOOLS] + [(file, f"usr/bin/{pathlib.Path(file).name}") for file in files]
        provider = next(pathlib.Path("/usr/lib/x86_64-linux-gnu/libibverbs").glob("librxe-rdmav*.so"))
        verbs = pathlib.Path("/usr/lib/x86_64-linux-gnu/libibverbs.so.1")
        programs += [(verbs.resolve(), verbs), (provider, provider)]
        programs += [(library, f"usr/lib/mccs/{library.name}") for library in self.own_libraries]
        for source, target in programs:
            add(source, target)
            for library in libraries(source):
                add(library.resolve(), library)
        # Without debugging information: it is most of their size.
        for stripped in [*(root / "usr/bin").iterdir(), *(root / "usr/lib/mccs").glob("*")]:
            subprocess.run(["strip", "--strip-debug", stripped], check=False, capture_output=True)
        (root / "etc/libibverbs.d/rxe.driver").write_text("driver rxe\n")
        add_modules(root, self.kernel.modules())
        init = root / "init"
        init.write_text(INIT.format(address=address, command=command))
        init.chmod(0o755)
        image = self.directory / "initramfs"
        pack(root, image)
        shutil.rmtree(root)
        return image

    def start(self):
        nics = [word for nic in self.network for word in ("-nic", f"{nic},model=virtio-net-pci")]
        self.process = subprocess.Popen(
            [*qemu_words(self.kernel, self.initramfs), "-m", str(self.memory_mib),
             "-append", "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable", *nics, *self.options],
            pass_fds=self.descriptors, stdin=subprocess.DEVNULL, stdout=self.log.open("wb"), stderr=subprocess.STDOUT)

    def text(self):
        return self.log.read_text(errors="replace").replace("\r", "") if self.log.exists() else ""

    def wait(self, limit_s, progress=None):
        """Waits for the command's end. Returns its exit status; None: it did not end in time."""
        deadline = time.monotonic() + limit_s
        shown = 0
        try:
            while self.process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.2)
                lines = self.text().split("\n")
                if progress is not None:
                    for line in lines[shown:-1]:
                        progress(line)
                    shown = len(lines) - 1
        finally:
            self.stop()
        found = re.search(r"rdma-vm: exit (\d+)", self.text())
        return int(found[1]) if found else None

    def await_ready(self, limit_s=120):
        """Waits until the command runs."""
        deadline = time.monotonic() + limit_s
        while "rdma-vm: ready" not in self.text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} did not start: see {self.log}")
            time.sleep(0.2)

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
