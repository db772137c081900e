"""Minimal installations of distributions, in which scripts/package runs the package: Debian's and Ubuntu's smallest
sets of packages, made by debootstrap in a cache."""
import dataclasses
import hashlib
import os
import pathlib
import shutil
import subprocess
import urllib.request

SCRIPTS = pathlib.Path("/usr/share/debootstrap/scripts")
# Debian has no package of Ubuntu's keys, so the hash is here. The key of the archive has the fingerprint
# F6ECB3762474EDA9D21B7022871920D1991BC93C.
UBUNTU_MIRROR = "http://archive.ubuntu.com/ubuntu"
UBUNTU_KEYS = "pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb"
UBUNTU_KEYS_SHA256 = "36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8"
DOWNLOAD_TIMEOUT_S = 60
# An installation takes a minute; this is for slow mirrors.
DEBOOTSTRAP_TIMEOUT_S = 1800
RELEASE_FILE = "etc/os-release"
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
# Namespaces end with their process, and with them all mounts and processes in them.
ISOLATED = ("unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--")


class Unavailable(Exception):
    """This machine cannot make the installation; the message is the reason and the remedy."""


@dataclasses.dataclass(frozen=True)
class Distribution:
    name: str  # for the table
    suite: str
    is_ubuntu: bool


DISTRIBUTIONS = (
    Distribution("Debian 12", "bookworm", is_ubuntu=False),
    Distribution("Ubuntu 22.04", "jammy", is_ubuntu=True),
    Distribution("Ubuntu 24.04", "noble", is_ubuntu=True),
)


def _release(root):
    """The variables of the installation's description, without quotes."""
    lines = (root / RELEASE_FILE).read_text().splitlines()
    return {key: value.strip("\"'") for key, _, value in (line.partition("=") for line in lines)}


def name_of(root):
    return _release(root).get("PRETTY_NAME", root.name)


def is_rhel_9(root):
    """Also of a rebuild of RHEL."""
    return _release(root).get("PLATFORM_ID") == "platform:el9"


def check_machine():
    if os.geteuid() != 0:
        raise Unavailable("a minimal installation needs root; run scripts/package as root")
    if shutil.which("debootstrap") is None:
        raise Unavailable("debootstrap is not installed; run apt-get install debootstrap")


def ubuntu_keyring(cache):
    keyring = cache / "ubuntu-keyring"
    file = keyring / "usr/share/keyrings/ubuntu-archive-keyring.gpg"
    if file.is_file():
        return file
    address = f"{UBUNTU_MIRROR}/{UBUNTU_KEYS}"
    try:
        with urllib.request.urlopen(address, timeout=DOWNLOAD_TIMEOUT_S) as answer:
            package = answer.read()
    except OSError as error:
        raise Unavailable(f"cannot download {address}: {error}; check the network") from error
    if hashlib.sha256(package).hexdigest() != UBUNTU_KEYS_SHA256:
        raise Unavailable(f"{address} has another hash than tools/package/roots.py; check the mirror")
    cache.mkdir(parents=True, exist_ok=True)
    archive = cache / "ubuntu-keyring.deb"
    archive.write_bytes(package)
    subprocess.run(["dpkg-deb", "-x", archive, keyring], check=True)
    archive.unlink()
    return file


def make_root(distribution, cache):
    """The directory of the installation. Raises Unavailable."""
    root = cache / distribution.suite
    if root.is_dir():
        return root
    check_machine()
    options, source = [], []
    if distribution.is_ubuntu:
        options = [f"--keyring={ubuntu_keyring(cache)}"]
        # debootstrap of Debian 12 does not know noble; all suites of Ubuntu have the same script.
        source = [UBUNTU_MIRROR, SCRIPTS / "jammy"]
    cache.mkdir(parents=True, exist_ok=True)
    partial = cache / f"{distribution.suite}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    log = cache / f"{distribution.suite}.log"
    with log.open("w") as output:
        command = [*ISOLATED, "debootstrap", "--variant=minbase", *options, distribution.suite, partial, *source]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                  timeout=DEBOOTSTRAP_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"debootstrap did not end in {DEBOOTSTRAP_TIMEOUT_S} s; see {log}") from error
    if done.returncode != 0:
        last = (log.read_text().strip().splitlines() or ["no output"])[-1]
        raise Unavailable(f"debootstrap cannot install {distribution.suite}: {last}; see {log}")
    partial.rename(root)
    return root


# In namespaces of its own. The root is made a mount, since mccs-lab changes how the root's mounts propagate. Libraries
# that the package has itself are hidden in the installation, so that a missing one is found.
_ENTER = """
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
mount -t tmpfs tmpfs "$1/opt"
mkdir "$1/opt/mccs"
mount --bind -o ro "$2" "$1/opt/mccs"
mount -t proc proc "$1/proc"
mount -t sysfs sysfs -o ro "$1/sys"
mount -t tmpfs tmpfs "$1/tmp"
mount -t tmpfs tmpfs "$1/run"
mount -t tmpfs tmpfs "$1/dev/shm"
for library in "$1"/usr/lib/x86_64-linux-gnu/lib*.so* "$1"/usr/lib64/lib*.so*; do
  case "$library" in
    */libstdc++.so*|*/libgcc_s.so*|*/libudev.so*|*/libhwloc.so*)
      [ -L "$library" ] || mount --bind /dev/null "$library" ;;
  esac
done
exec chroot "$1" /usr/bin/env -i PATH="$3" HOME=/tmp LC_ALL=C /bin/sh -c "$4"
"""


def run_in(root, package, command, timeout_s):
    """Runs a shell command in the installation, with the package in /opt/mccs, and leaves it unchanged. Returns the
    finished process, with stdout and stderr together. Raises subprocess.TimeoutExpired."""
    return subprocess.run([*ISOLATED, "sh", "-c", _ENTER, "sh", root.resolve(), package.resolve(), PATH, command],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=timeout_s, check=False)
