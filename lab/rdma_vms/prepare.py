#!/usr/bin/env python3
"""Makes an initramfs for the virtual machines of mccs-lab, which runs this program.

Prints the first words of QEMU's command line, one per line, and its progress to stderr. Exit status 77: this machine
lacks something. After an error it prints only one line, the error message.
"""
import pathlib
import subprocess
import sys
import tempfile

import debian_vm

UNSUPPORTED = 77
# The file systems that the machines share with this one.
MODULES = ("9p", "9pnet_virtio", "overlay")
DIRECTORIES = ("proc", "sys", "dev", "root", "changes")


def make_initramfs(kernel):
    image = debian_vm.CACHE / f"initramfs-lab-{kernel.version}"
    with tempfile.TemporaryDirectory(dir=debian_vm.CACHE) as directory:
        root = pathlib.Path(directory) / "root"
        for name in DIRECTORIES:
            (root / name).mkdir(parents=True)
        debian_vm.add_busybox(root)
        debian_vm.add_modules(root, kernel.modules(MODULES))
        init = root / "init"
        init.write_bytes((pathlib.Path(__file__).parent / "init").read_bytes())
        init.chmod(0o755)
        # Labs that start at the same time each make the same image.
        unfinished = pathlib.Path(directory) / "image"
        debian_vm.pack(root, unfinished)
        unfinished.rename(image)
    return image


def main():
    try:
        kernel = debian_vm.Kernel()
        words = debian_vm.qemu_words(kernel, make_initramfs(kernel))
    except debian_vm.Unavailable as missing:
        print(missing)
        return UNSUPPORTED
    except (OSError, subprocess.SubprocessError) as error:
        print(f"cannot prepare virtual machines in {debian_vm.CACHE}: {error}; make space or set XDG_CACHE_HOME")
        return 1
    print("\n".join(words))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
