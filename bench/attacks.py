"""Attacks by one tenant's program, and by a stranger on the network, for attacked_calls. Each runs until SIGTERM, and
then prints how often it was repeated.

Usage: attacks.py NAME [ENDPOINT]. The environment is that of a tenant's program in a lab (MCCS_SOCKET, LD_PRELOAD).
"""
import ctypes
import hashlib
import os
import random
import signal
import socket
import ssl
import struct
import sys
import threading
import time

# Of proto/shim_control.h.
CONTROL_MAGIC = 0x314c5443_5343434d
HELLO = 1
MESSAGE_KINDS = 35
# Of service/transport/handshake.h.
SECURE_MARKER = b"MCCSTLS1"

UNIQUE_ID_BYTES = 128
FORMING_S = 0.3
count = 0
stopped = False


def stop(*_):
    global stopped
    stopped = True


def rounds():
    """Counts the rounds of an attack, until SIGTERM. A round yields `skip`, to be called if it could do nothing."""
    global count
    while not stopped:
        skipped = []
        yield lambda: (skipped.append(True), time.sleep(0.001))
        count += not skipped


def open_session():
    """A connection that has said Hello; None if the daemon does not take one now."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.setblocking(False)
    try:
        connection.connect(os.environ["MCCS_SOCKET"])
        body = struct.pack("<QII64s", CONTROL_MAGIC, 1, 0xffffffff, b"attacks")
        connection.send(struct.pack("<IIQ", HELLO, 16 + len(body), 1) + body)
    except OSError:
        connection.close()
        return None
    return connection


def sessions():
    """Opens as many sessions as the daemon takes, and ends all of them at once."""
    for skip in rounds():
        held = []
        while len(held) < 4096 and (opened := open_session()) is not None:
            held.append(opened)
        for connection in held:
            connection.close()
        if not held:
            skip()


def messages():
    """Sends messages of every kind with random contents."""
    chance = random.Random(1)
    for skip in rounds():
        connection = open_session()
        if connection is None:
            skip()
            continue
        connection.settimeout(0.1)
        try:
            while not stopped:
                body = chance.randbytes(8 * chance.randrange(100))
                connection.send(struct.pack("<IIQ", chance.randrange(2, MESSAGE_KINDS + 1), 16 + len(body),
                                            chance.randrange(100)) + body)
        except OSError:
            pass
        connection.close()


def libraries():
    return ctypes.CDLL("libcudart.so.13"), ctypes.CDLL("libnccl.so.2")


def registrations():
    """Registers 512 buffers and releases them."""
    cuda, nccl = libraries()
    comm = ctypes.c_void_p()
    nccl.ncclCommInitAll(ctypes.byref(comm), 1, None)
    buffers = []
    for _ in range(512):
        pointer = ctypes.c_void_p()
        cuda.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(64 << 10))
        buffers.append(pointer)
    for _ in rounds():
        handles = []
        for pointer in buffers:
            handle = ctypes.c_void_p()
            nccl.ncclCommRegister(comm, pointer, ctypes.c_size_t(64 << 10), ctypes.byref(handle))
            handles.append(handle)
        for handle in handles:
            nccl.ncclCommDeregister(comm, handle)


def aborts():
    """Makes communicators of two ranks, and aborts them."""
    _, nccl = libraries()
    for skip in rounds():
        comms = (ctypes.c_void_p * 2)()
        if nccl.ncclCommInitAll(comms, 2, None) != 0:
            skip()
            continue
        for comm in comms:
            nccl.ncclCommAbort(ctypes.c_void_p(comm))


def to_itself(nccl, comm, stream, messages):
    """Sends `messages` of 8 bytes to itself, in one group."""
    cuda, _ = libraries()
    buffers = [ctypes.c_void_p(), ctypes.c_void_p()]
    for buffer in buffers:
        cuda.cudaMalloc(ctypes.byref(buffer), ctypes.c_size_t(8))

    def post():
        nccl.ncclGroupStart()
        for _ in range(messages):
            for call, buffer in zip((nccl.ncclSend, nccl.ncclRecv), buffers):
                call(buffer, ctypes.c_size_t(8), 0, 0, comm, stream)
        nccl.ncclGroupEnd()
    return post


def groups():
    """Sends itself a group of 4096 messages, and aborts the communicator."""
    _, nccl = libraries()
    for skip in rounds():
        comm = ctypes.c_void_p()
        if nccl.ncclCommInitAll(ctypes.byref(comm), 1, None) != 0:
            skip()
            continue
        to_itself(nccl, comm, None, 4096)()
        nccl.ncclCommAbort(comm)


def captures():
    """Captures a group of 4096 messages, launches the graph, and destroys it."""
    cuda, nccl = libraries()
    comm, stream = ctypes.c_void_p(), ctypes.c_void_p()
    nccl.ncclCommInitAll(ctypes.byref(comm), 1, None)
    cuda.cudaStreamCreate(ctypes.byref(stream))
    post = to_itself(nccl, comm, stream, 4096)
    for _ in rounds():
        graph, launchable = ctypes.c_void_p(), ctypes.c_void_p()
        cuda.cudaStreamBeginCapture(stream, 2)  # relaxed
        post()
        cuda.cudaStreamEndCapture(stream, ctypes.byref(graph))
        cuda.cudaGraphInstantiate(ctypes.byref(launchable), graph, ctypes.c_ulonglong(0))
        cuda.cudaGraphLaunch(launchable, stream)
        cuda.cudaGraphExecDestroy(launchable)
        cuda.cudaGraphDestroy(graph)
        cuda.cudaStreamSynchronize(stream)


def splits():
    """Splits a communicator 32 times in one group, and aborts the new ones."""
    _, nccl = libraries()
    comm = ctypes.c_void_p()
    nccl.ncclCommInitAll(ctypes.byref(comm), 1, None)
    for skip in rounds():
        made = (ctypes.c_void_p * 32)()
        nccl.ncclGroupStart()
        for i in range(len(made)):
            nccl.ncclCommSplit(comm, 0, 0, ctypes.byref(made, i * ctypes.sizeof(ctypes.c_void_p)), None)
        if nccl.ncclGroupEnd() != 0:
            skip()
        for each in made:
            if each:
                nccl.ncclCommAbort(ctypes.c_void_p(each))


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * UNIQUE_ID_BYTES)]


def join_alone(nccl):
    """Joins a communicator of two ranks whose second rank never comes."""
    made = UniqueId()
    comm = ctypes.c_void_p()
    if nccl.ncclGetUniqueId(ctypes.byref(made)) == 0:
        nccl.ncclCommInitRank(ctypes.byref(comm), 2, made, 0)


def in_children(work):
    """Repeats: a child does `work` in 64 threads, none of which ends, and is then killed."""
    for _ in rounds():
        child = os.fork()
        if child == 0:
            _, nccl = libraries()
            for _ in range(64):
                threading.Thread(target=work, args=(nccl,), daemon=True).start()
            time.sleep(FORMING_S)
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)


def forming():
    """Leaves communicators half formed."""
    in_children(join_alone)


def names():
    """The same with names of NCCL_COMM_ID of its choice."""
    def join(nccl):
        os.environ["NCCL_COMM_ID"] = f"127.0.0.1:{random.randrange(1024, 65536)}"
        join_alone(nccl)
    in_children(join)


def threads():
    """As many threads with about as much processor time as those of `names`, which call nothing of MCCS: for
    comparison."""
    data = bytes(256 << 10)
    in_children(lambda _: hashlib.sha256(data))


def killed():
    """A program with much registered memory that is killed, again and again."""
    def work():
        cuda, nccl = libraries()
        comm = ctypes.c_void_p()
        nccl.ncclCommInitAll(ctypes.byref(comm), 1, None)
        for _ in range(8):
            pointer, handle = ctypes.c_void_p(), ctypes.c_void_p()
            cuda.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(256 << 20))
            nccl.ncclCommRegister(comm, pointer, ctypes.c_size_t(256 << 20), ctypes.byref(handle))
        os.kill(os.getpid(), signal.SIGKILL)
    for _ in rounds():
        child = os.fork()
        if child == 0:
            work()
        os.waitpid(child, 0)


def connected(endpoint):
    address, _, port = endpoint.rpartition(":")
    return socket.create_connection((address, int(port)), timeout=1)


def garbage(endpoint):
    """Connects to the daemon's port and sends bytes that are no protocol."""
    for skip in rounds():
        try:
            with connected(endpoint) as connection:
                connection.sendall(os.urandom(64))
        except OSError:
            skip()


def handshakes(endpoint):
    """Begins handshakes of TLS, which the daemon has to compute, and leaves."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    except ssl.SSLWantReadError:
        pass
    client_hello = outgoing.read()
    for skip in rounds():
        held = []
        try:
            for _ in range(64):
                held.append(connected(endpoint))
                held[-1].sendall(SECURE_MARKER + client_hello)
            for connection in held:
                connection.recv(1)
        except OSError:
            skip()
        for connection in held:
            connection.close()


OF_A_TENANT = (sessions, messages, registrations, groups, captures, splits, aborts, forming, names, threads, killed)
OF_A_STRANGER = (garbage, handshakes)


def main():
    signal.signal(signal.SIGTERM, stop)
    attack = {each.__name__: each for each in OF_A_TENANT + OF_A_STRANGER}[sys.argv[1]]
    print("begun", flush=True)
    attack(*sys.argv[2:])
    print(count, flush=True)


if __name__ == "__main__":
    main()
