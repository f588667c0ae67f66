"""A WebSocket server that sends back every message. The first argument is its port."""

import asyncio
import sys

from websockets.asyncio.server import serve


async def echo(socket):
    async for message in socket:
        await socket.send(message)


async def main():
    async with serve(echo, "127.0.0.1", int(sys.argv[1]), max_size=None, ping_interval=None) as server:
        await server.serve_forever()


asyncio.run(main())
