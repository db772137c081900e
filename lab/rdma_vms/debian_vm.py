"""What virtual machines with an RDMA device need: QEMU, Debian's own kernel with its modules, and busybox.

The lab (prepare.py) and the tests of RDMA (tests/rdma/) share it. QEMU emulates the processor, without KVM: it proves
function, never speed. Nothing is installed: packages are extracted into a cache.
"""
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "mccs" / "rdma-vms"
QEMU = "qemu-system-x86_64"
# Programs, and the Debian packages that have them.
PROGRAMS = {QEMU: "qemu-system-x86", "cpio": "cpio", "depmod": "kmod", "modprobe": "kmod", "dpkg-deb": "dpkg",
            "ip": "iproute2", "rdma": "iproute2"}
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")
# In the order of loading; modprobe adds what they need. Without crc32_generic, adding the device fails.
MODULES = ("virtio_pci", "virtio_net", "crc32_generic", "rdma_rxe", "rdma_ucm", "ib_uverbs")


class Unavailable(Exception):
    """QEMU, or a package, cannot be had here."""


def check_machine():
    """Raises Unavailable, with a remedy, unless all programs are installed."""
    if platform.machine() != "x86_64":
        raise Unavailable(f"virtual machines with RDMA need an x86_64 processor; this one is {platform.machine()}")
    missing = {package for program, package in PROGRAMS.items() if shutil.which(program, path=PATH) is None}
    if not any((LIBRARIES / "libibverbs").glob("librxe-rdmav*.so")):
        missing.add("ibverbs-providers")
    if missing:
        raise Unavailable("virtual machines with RDMA need more packages; run "
                          f"'apt-get install --no-install-recommends {' '.join(sorted(missing))}'")


def call(*words, **options):
    return subprocess.run([str(word) for word in words], check=True, env={**os.environ, "PATH": PATH}, **options)


def download(package):
    """Extracts a Debian package, without installing it. Returns the directory."""
    directory = CACHE / package
    if (directory / "done").exists():
        return directory
    print(f"downloading Debian's package {package}", file=sys.stderr, flush=True)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    got = subprocess.run(["apt-get", "download", package], cwd=directory, capture_output=True, text=True, check=False)
    if got.returncode != 0:
        reason = (got.stderr.strip() or got.stdout.strip()).splitlines()[-1:] or ["apt-get failed"]
        raise Unavailable(f"cannot download Debian's package {package}: {reason[0]}; "
                          "check the network and run 'apt-get update'")
    archive = next(directory.glob("*.deb"))
    call("dpkg-deb", "-x", archive, directory)
    archive.unlink()
    (directory / "done").touch()
    return directory


def kernel_package():
    """The package of Debian's current kernel; without apt's lists, one of an earlier call."""
    shown = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], capture_output=True, text=True, check=False)
    if (found := re.search(r"Depends: (linux-image-\S+)", shown.stdout)) is not None:
        return found[1]
    if earlier := sorted(CACHE.glob("linux-image-*/done")):
        return earlier[-1].parent.name
    raise Unavailable("apt knows no package linux-image-amd64; run 'apt-get update' on Debian or a derivative")


class Kernel:
    def __init__(self):
        check_machine()
        directory = download(kernel_package())
        self.image = next((directory / "boot").glob("vmlinuz-*"))
        self.version = self.image.name.removeprefix("vmlinuz-")
        self.root = directory
        modules = directory / "lib/modules" / self.version
        if not (modules / "modules.dep.bin").exists():
            call("depmod", "-b", directory, self.version)

    def modules(self, more=()):
        """Files of MODULES, of `more` and of what they need, in the order of loading."""
        files = []
        for module in (*MODULES, *more):
            shown = call("modprobe", "-d", self.root, "-S", self.version, "--show-depends", module,
                         capture_output=True, text=True).stdout
            for line in shown.splitlines():
                kind, _, path = line.partition(" ")
                if kind == "insmod" and path.strip() not in files:
                    files.append(path.strip())
        return [pathlib.Path(file) for file in files]


def add_busybox(root, without=()):
    """Adds busybox and its applets to /bin of an initramfs."""
    busybox = download("busybox-static") / "bin/busybox"
    (root / "bin").mkdir(parents=True, exist_ok=True)
    shutil.copy(busybox, root / "bin/busybox")
    for applet in call(busybox, "--list", capture_output=True, text=True).stdout.split():
        if applet not in (*without, "busybox"):
            (root / "bin" / applet).symlink_to("busybox")


def add_modules(root, files):
    """Adds kernel modules, and the file /modules with their paths in the order of loading."""
    directory = root / "lib/modules"
    directory.mkdir(parents=True)
    for file in files:
        shutil.copy(file, directory)
    (root / "modules").write_text("".join(f"/lib/modules/{file.name}\n" for file in files))


def pack(root, image):
    """Makes the initramfs `image` of a directory."""
    with image.open("wb") as out:
        names = subprocess.Popen(["find", ".", "-print0"], cwd=root, stdout=subprocess.PIPE)
        call("cpio", "--null", "--create", "--format=newc", "--quiet", cwd=root, stdin=names.stdout, stdout=out)
        names.wait()


def qemu_words(kernel, initramfs):
    """The beginning of QEMU's command line: a machine with one emulated processor whose console is QEMU's output."""
    return [shutil.which(QEMU, path=PATH), "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "1", "-nodefaults",
            "-display", "none", "-serial", "stdio", "-no-reboot", "-kernel", str(kernel.image),
            "-initrd", str(initramfs)]
