"""The package under test: an archive, its directory, or a build tree."""
import pathlib
import shutil
import subprocess
import tarfile

import zstd
from results import Failed

# Directories of programs: of the package, and of programs that only the build tree has in a directory of their own.
PROGRAMS = ("bin", "bin/tests")


class BadPackage(Failed):
    """DIST is not a package, or lacks a file."""


def zstd_stream(archive):
    """The decompressed archive as a file."""
    if shutil.which("zstd"):
        return subprocess.Popen(["zstd", "--decompress", "--stdout", "--quiet", archive], stdout=subprocess.PIPE).stdout
    try:
        return zstd.Reader(archive)
    except OSError as error:
        raise BadPackage(f"cannot decompress {archive}: this machine has neither the program zstd nor libzstd.so.1 "
                         f"({error}); unpack the archive on another machine and pass the directory") from error


def unpack(archive, directory):
    """Unpacks into the directory; returns the only directory of the archive."""
    try:
        with zstd_stream(archive) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
            tar.extractall(directory)
    except (OSError, tarfile.TarError) as error:
        raise BadPackage(f"cannot unpack {archive}: {error}") from error
    content = list(directory.iterdir())
    if len(content) != 1:
        raise BadPackage(f"{archive} has {len(content)} entries at its top, expected one directory")
    return content[0]


class Package:
    """REQUIRES: `root` has bin/ and lib/."""

    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()
        self.lib = self.root / "lib"
        for needed in ("bin/mccsd", "lib/libnccl.so.2"):
            if not (self.root / needed).exists():
                raise BadPackage(f"{self.root} is not a package: it has no {needed}")

    def program(self, name):
        for directory in PROGRAMS:
            path = self.root / directory / name
            if path.exists():
                return path
        raise BadPackage(f"{self.root} has no program {name}")

    def preload(self, emulated):
        """What a tenant preloads, in this order."""
        names = ["libmccs-free-hooks.so"]
        if emulated:
            names += [f"emulation/{name}" for name in ("libcudart.so.13", "libcuda.so.1", "libnvidia-ml.so.1")]
        return [self.lib / name for name in (*names, "libnccl.so.2")]

    def description(self):
        """Version and commit, as far as they are known."""
        found = {"directory": str(self.root)}
        version = self.root / "VERSION"
        if version.exists():
            lines = [line.partition(": ") for line in version.read_text().splitlines()]
            found.update({name: value for name, _, value in lines if name in ("version", "commit", "compiler", "CUDA")})
        else:
            commit = subprocess.run(["git", "-C", self.root, "describe", "--always", "--dirty", "--abbrev=40"],
                                    capture_output=True, text=True) if shutil.which("git") else None
            found["commit"] = commit.stdout.strip() if commit and commit.returncode == 0 else "unknown"
        return found
