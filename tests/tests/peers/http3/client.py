"""Requests of aioquic to a server with `/hello` (5 bytes), `/large` (300,000 bytes) and `/up` (the number of bytes of the body). The
arguments are the port and the file of the authority. Each step is asserted here."""

import asyncio
import sys

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration

port, authority = int(sys.argv[1]), sys.argv[2]
PATIENCE_S = 60


class Client(QuicConnectionProtocol):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.http, self.waiting, self.responses = H3Connection(self._quic), {}, {}

    def quic_event_received(self, event):
        for part in self.http.handle_event(event):
            heads, body = self.responses.setdefault(part.stream_id, ([], bytearray()))
            if isinstance(part, HeadersReceived):
                heads.append(dict(part.headers))
            elif isinstance(part, DataReceived):
                body += part.data
            if part.stream_ended and part.stream_id in self.waiting:
                self.waiting.pop(part.stream_id).set_result(None)

    async def request(self, path, method="GET", body=None, fields=()):
        stream = self._quic.get_next_available_stream_id()
        self.waiting[stream] = asyncio.get_running_loop().create_future()
        head = [(b":method", method.encode()), (b":scheme", b"https"), (b":authority", b"localhost")]
        head += [(b":path", path.encode()), *fields]
        self.http.send_headers(stream, head, end_stream=body is None)
        if body is not None:
            self.http.send_data(stream, body, end_stream=True)
        self.transmit()
        await asyncio.wait_for(asyncio.shield(self.waiting[stream]), PATIENCE_S)
        heads, body = self.responses.pop(stream)
        return int(heads[-1][b":status"]), bytes(body)


def session(ticket=None, on_ticket=None, waits=True):
    configuration = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, server_name="localhost")
    configuration.load_verify_locations(authority)
    configuration.session_ticket = ticket
    return connect(
        "127.0.0.1",
        port,
        configuration=configuration,
        create_protocol=Client,
        session_ticket_handler=on_ticket,
        wait_connected=waits,
    )


async def main():
    tickets = []
    async with session(on_ticket=tickets.append) as client:
        assert await client.request("/hello") == (200, b"hello")
        assert await client.request("/large") == (200, b"x" * 300_000)
        # No HEAD: this version of aioquic expects a body after it.
        assert (await client.request("/missing"))[0] == 404
        assert await client.request("/large", fields=[(b"range", b"bytes=5-9")]) == (206, b"xxxxx")
        assert await client.request("/up", "POST", b"y" * 1_000_000) == (200, b"1000000")
        many = await asyncio.gather(*[client.request("/hello") for _ in range(300)])
        assert many == [(200, b"hello")] * 300
        uploads = await asyncio.gather(*[client.request("/up", "POST", b"z" * 50_000) for _ in range(30)])
        assert uploads == [(200, b"50000")] * 30
        client._quic.request_key_update()
        assert await client.request("/hello") == (200, b"hello")
        client.change_connection_id()
        assert await client.request("/large") == (200, b"x" * 300_000)
        # A new address, as after a change of the network.
        loop = asyncio.get_running_loop()
        old = client._transport
        await loop.create_datagram_endpoint(lambda: client, local_addr=("::", 0))
        assert await client.request("/large") == (200, b"x" * 300_000)
        old.close()
    assert tickets, "the server sends a ticket"
    async with session(ticket=tickets[0]) as client:
        assert await client.request("/hello") == (200, b"hello")
        assert client._quic.tls.session_resumed
    # What is read when the handshake is complete is no longer early.
    for number in range(1, 50):
        async with session(ticket := tickets[number], tickets.append, waits=False) as client:
            responses = await asyncio.gather(client.request("/hello"), client.request("/up", "POST", b"x"))
            assert client._quic.tls.early_data_accepted and responses[0] == (200, b"hello"), responses
            assert responses[1][0] in (200, 425), responses
            assert await client.request("/up", "POST", b"x") == (200, b"1")
        if responses[1][0] == 425:
            break
    assert responses[1][0] == 425, "no POST was read before the end of a handshake"
    async with session(ticket, waits=False) as client:
        assert await client.request("/up", "POST", b"x") == (200, b"1"), "the second use of a ticket"
        assert not client._quic.tls.early_data_accepted


asyncio.run(main())
