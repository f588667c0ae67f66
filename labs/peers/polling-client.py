#!/usr/bin/env python3
"""Polls a server like the client of the fourth field report, which ran out of descriptors after hours.

    polling-client.py (leaking|repaired) POLLS_PER_SECOND DESCRIPTORS_MAX PORT PATH

Each poll has a connection of its own, which is closed politely: shut down writing, read to the end, shut down reading, close.
After both sides have closed, or the server has reset the connection, Linux rejects the second shutdown with ENOTCONN.

- leaking: the four steps are in one guarded block, so that the error skips `close`.
- repaired: each step is guarded by itself, so that `close` is always reached.
"""

import resource
import socket
import sys
import time

# Haskell's sockets of 2008 had no finalizer. Python closes a forgotten socket, so this list keeps all that are not closed.
open_sockets = set()


def leaking_close(connection):
    try:
        connection.shutdown(socket.SHUT_WR)
        read_to_end(connection)
        connection.shutdown(socket.SHUT_RD)
        connection.close()
        open_sockets.discard(connection)
    except OSError:
        pass


def repaired_close(connection):
    steps = [
        lambda: connection.shutdown(socket.SHUT_WR),
        lambda: read_to_end(connection),
        lambda: connection.shutdown(socket.SHUT_RD),
        connection.close,
    ]
    for step in steps:
        try:
            step()
        except OSError:
            pass
    open_sockets.discard(connection)


def read_to_end(connection):
    while connection.recv(65536):
        pass


def poll(port, path):
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    open_sockets.add(connection)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    connection.recv(65536)
    return connection


def main():
    close = {"leaking": leaking_close, "repaired": repaired_close}[sys.argv[1]]
    pace, limit, port, path = float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, hard), hard))
    print(f"polling port {port}", flush=True)
    due = time.monotonic()
    while True:
        try:
            connection = poll(port, path)
        except OSError as error:
            # The server is not up yet, or "Too many open files": the report's client died of it, this one goes on so that
            # it can be observed.
            print(f"cannot poll: {error}", flush=True)
        else:
            close(connection)
        due += 1 / pace
        time.sleep(max(0, due - time.monotonic()))


main()
