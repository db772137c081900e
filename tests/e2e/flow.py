#!/usr/bin/env python3
"""TCP flows with chosen ports, for tests of networks.

flow.py receive ADDRESS PORT                    prints "ready", then receives forever
flow.py send FROM FROM_PORT TO TO_PORT BYTES    sends, waits until all is received, prints the seconds; BYTES 0: forever
flow.py meet FROM PORT TO…                      opens a short flow to each address
"""
import socket
import struct
import sys
import threading
import time

PIECE = bytes(1 << 16)


def take_all(connection):
    with connection:
        try:
            while connection.recv(len(PIECE)):
                pass
            connection.send(b".")
        except OSError:
            pass  # the sender was killed


def receive(address, port):
    with socket.create_server((address, int(port)), backlog=64) as server:
        print("ready", flush=True)
        while True:
            connection, _ = server.accept()
            threading.Thread(target=take_all, args=(connection,), daemon=True).start()


def send(from_address, from_port, address, port, count):
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        connection.bind((from_address, int(from_port)))
        connection.connect((address, int(port)))
        start = time.monotonic()
        left = int(count) or 1 << 62
        while left > 0:
            left -= connection.send(PIECE[:left] if left < len(PIECE) else PIECE)
        connection.shutdown(socket.SHUT_WR)
        if connection.recv(1) != b".":
            sys.exit("the receiver closed the connection")
        # Reset instead of TIME_WAIT, so that another connection can use the same ports immediately.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        print(time.monotonic() - start)


def meet(from_address, port, *addresses):
    for address in addresses:
        with socket.create_connection((address, int(port)), source_address=(from_address, 0)) as connection:
            connection.shutdown(socket.SHUT_WR)
            if connection.recv(1) != b".":
                sys.exit(f"{address} does not reply")


if __name__ == "__main__":
    {"receive": receive, "send": send, "meet": meet}[sys.argv[1]](*sys.argv[2:])
