#!/usr/bin/env python3
"""A tenant's program that writes an address of its choice into a unique id and joins with it. Prints the result's number
and ncclGetLastError. Usage: forge_unique_id.py ADDRESS PORT"""
import ctypes
import struct
import sys

from count_launches import UniqueId, check

# Of proto/unique_id.h.
PORT_AT, HOST_AT, HOST_BYTES = 12, 40, 64


def main():
    address, port = sys.argv[1], int(sys.argv[2])
    cudart, nccl = (ctypes.CDLL(name) for name in ("libcudart.so.13", "libnccl.so.2"))
    check(cudart.cudaSetDevice(0), "cudaSetDevice")
    made = UniqueId()
    check(nccl.ncclGetUniqueId(ctypes.byref(made)), "ncclGetUniqueId")
    forged = bytearray(bytes(made))
    struct.pack_into("<H", forged, PORT_AT, port)
    struct.pack_into(f"{HOST_BYTES}s", forged, HOST_AT, address.encode())
    comm = ctypes.c_void_p()
    result = nccl.ncclCommInitRank(ctypes.byref(comm), 2, UniqueId.from_buffer_copy(bytes(forged)), 0)
    nccl.ncclGetLastError.restype = ctypes.c_char_p
    print(result, nccl.ncclGetLastError(None).decode(), flush=True)


if __name__ == "__main__":
    main()
