"""A server of aioquic for the files of a folder. The arguments are the address, the port, the files of the certificate and its key, and the
folder. It also listens for TCP at the port when it is ready."""

import asyncio
import pathlib
import sys

from aioquic.asyncio import QuicConnectionProtocol, serve
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration

address, port, certificate, key, folder = sys.argv[1:]


class Server(QuicConnectionProtocol):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.http = H3Connection(self._quic)

    def quic_event_received(self, event):
        for part in self.http.handle_event(event):
            if isinstance(part, HeadersReceived):
                path = dict(part.headers)[b":path"].decode().lstrip("/")
                body = pathlib.Path(folder, path).read_bytes()
                self.http.send_headers(part.stream_id, [(b":status", b"200"), (b"x-path", path.encode())])
                self.http.send_data(part.stream_id, body, end_stream=True)
        self.transmit()


async def main():
    configuration = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN)
    configuration.load_cert_chain(certificate, key)
    await serve(address, int(port), configuration=configuration, create_protocol=Server)
    await asyncio.start_server(lambda _reader, writer: writer.close(), address, int(port))
    await asyncio.Event().wait()


asyncio.run(main())
