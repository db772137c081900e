#!/usr/bin/env python3
"""One rank of an all-reduce on emulated GPU 0: prints how often its process has launched each kernel of the library.
Usage: count_launches.py ID_FILE, with RANK and WORLD_SIZE. Rank 0 writes the unique id to the file."""
import array
import ctypes
import os
import pathlib
import sys
import time

ID_BYTES = 128
COUNT = 1000
FLOAT32, SUM = 7, 0
TO_DEVICE, TO_HOST = 1, 2


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * ID_BYTES)]


def check(result, what):
    if result != 0:
        sys.exit(f"{what} failed: {result}")


def unique_id(nccl, path, rank):
    value = UniqueId()
    if rank == 0:
        check(nccl.ncclGetUniqueId(ctypes.byref(value)), "ncclGetUniqueId")
        part = path.with_suffix(".part")
        part.write_bytes(bytes(value))
        part.rename(path)
        return value
    while not path.exists():
        time.sleep(0.01)
    return UniqueId.from_buffer_copy(path.read_bytes())


def main():
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    cudart, cuda, nccl = (ctypes.CDLL(name) for name in ("libcudart.so.13", "libcuda.so.1", "libnccl.so.2"))
    check(cudart.cudaSetDevice(0), "cudaSetDevice")
    comm, buffer = ctypes.c_void_p(), ctypes.c_void_p()
    check(nccl.ncclCommInitRank(ctypes.byref(comm), ranks, unique_id(nccl, pathlib.Path(sys.argv[1]), rank), rank),
          "ncclCommInitRank")
    values = array.array("f", [rank + 1.0] * COUNT)
    address, size = ctypes.c_void_p(values.buffer_info()[0]), ctypes.c_size_t(4 * COUNT)
    check(cudart.cudaMalloc(ctypes.byref(buffer), size), "cudaMalloc")
    check(cudart.cudaMemcpy(buffer, address, size, TO_DEVICE), "cudaMemcpy")
    check(nccl.ncclAllReduce(buffer, buffer, ctypes.c_size_t(COUNT), FLOAT32, SUM, comm, None), "ncclAllReduce")
    check(cudart.cudaMemcpy(address, buffer, size, TO_HOST), "cudaMemcpy")
    expected = ranks * (ranks + 1) / 2
    if any(value != expected for value in values):
        sys.exit(f"wrong result: {values[0]}; expected {expected}")
    cuda.mccsEmulationLaunches.restype = ctypes.c_uint64
    runs, waits = (cuda.mccsEmulationLaunches(name) for name in (b"mccs_run_commands", b"mccs_await_fence"))
    print(f"rank {rank}: {runs} of mccs_run_commands, {waits} of mccs_await_fence", flush=True)
    check(nccl.ncclCommDestroy(comm), "ncclCommDestroy")


if __name__ == "__main__":
    main()
