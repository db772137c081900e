#!/usr/bin/env python3
"""An AllReduce with NCCL's Python bindings, nccl4py: one process per GPU, without PyTorch or CuPy.

Each rank contributes its rank + 1; all ranks must get the sum. The variables are those of torchrun: RANK, WORLD_SIZE,
LOCAL_RANK, MASTER_ADDR and MASTER_PORT. A process without them is rank 0 of 1.
"""
import argparse
import os
import socket
import sys
import time

import nccl.core as nccl
import numpy as np
from cuda.core import Device, LegacyPinnedMemoryResource
from cuda.core.utils import StridedMemoryView

TIMEOUT_S = 60
UNIQUE_ID_BYTES = 128


def serve(address, unique_id, clients):
    """Sends the id to each of the other ranks."""
    with socket.create_server(address) as server:
        server.settimeout(TIMEOUT_S)
        for _ in range(clients):
            with server.accept()[0] as connection:
                connection.sendall(bytes(unique_id))
    return unique_id


def receive(address):
    """Fetches the id from rank 0, retrying until rank 0 serves it."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            with socket.create_connection(address, timeout=TIMEOUT_S) as connection:
                data = connection.makefile("rb").read(UNIQUE_ID_BYTES)
            return nccl.UniqueId.from_bytes(data)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def exchange_unique_id(rank, ranks):
    if ranks == 1:
        return nccl.get_unique_id()
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    return serve(address, nccl.get_unique_id(), ranks - 1) if rank == 0 else receive(address)


def as_floats(buffer):
    """Views a GPU buffer with the type of its elements, as NCCL takes it."""
    return StridedMemoryView.from_buffer(buffer, (buffer.size // 4,), dtype=np.dtype(np.float32))


def all_reduce(comm, stream, device, host):
    """Replaces the contents of `host` with the sum over all ranks."""
    with_nccl = nccl.mem_alloc(host.nbytes, device)
    with_cuda = device.allocate(host.nbytes, stream=stream)
    pinned = LegacyPinnedMemoryResource().allocate(host.nbytes)
    view = np.from_dlpack(pinned).view(host.dtype)
    view[:] = host

    pinned.copy_to(with_nccl, stream=stream)
    comm.allreduce(as_floats(with_nccl), as_floats(with_cuda), nccl.SUM, stream=stream)
    with_cuda.copy_to(pinned, stream=stream)
    stream.sync()
    host[:] = view


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1 << 20, help="elements per rank (default: %(default)s)")
    count = parser.parse_args().count
    rank, ranks, gpu = (int(os.environ.get(name, default))
                        for name, default in (("RANK", 0), ("WORLD_SIZE", 1), ("LOCAL_RANK", 0)))

    device = Device(gpu)
    device.set_current()
    comm = nccl.Communicator.init(ranks, rank, exchange_unique_id(rank, ranks))
    numbers = np.full(count, rank + 1, dtype=np.float32)
    all_reduce(comm, device.create_stream(), device, numbers)
    comm.destroy()

    expected = ranks * (ranks + 1) // 2
    wrong = np.count_nonzero(numbers != expected)
    print(f"rank {rank} of {ranks} on {device.name}: {count} elements, each {expected}, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
