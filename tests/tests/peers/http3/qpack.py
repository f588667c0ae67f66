"""Encodes random lists of fields with pylsqpack and a dynamic table, and decodes the lists that the other side encodes. The first argument
is the seed, the second the number of lists, the third the capacity of the table, and the fourth the number of streams that may be blocked.

Each line of standard output is for the other side: `I` and instructions for its decoder, or `S`, a stream and a section. Standard input
has a line in JSON for each: `feedback`, the bytes of the decoder stream, and `decoded`, a list of streams with their fields, and with the
same fields as the other side encodes them. Bytes are in hexadecimal."""

import json
import random
import sys

import pylsqpack

seed, lists, capacity, blocked = map(int, sys.argv[1:])
chance = random.Random(seed)
encoder, decoder = pylsqpack.Encoder(), pylsqpack.Decoder(0, 0)
NAMES = [b":path", b":method", b":status", b"cookie", b"accept", b"x-a", b"x-long-name-of-a-field", b"content-type", b"age"]
TEXT = bytes(range(0x20, 0x7F))


def text(most, alphabet=TEXT):
    return bytes(chance.choice(alphabet) for _ in range(chance.randrange(most)))


# Few values, so that the encoder finds them again; and some that occur once.
VALUES = [text(60) for _ in range(40)] + [b"", b"GET", b"/", b"200", bytes(range(0x80, 0x100))]


def field():
    name = chance.choice(NAMES) if chance.random() < 0.9 else b"x-" + text(20, b"abcdefghijklmnopqrstuvwxyz-")
    value = chance.choice(VALUES) if chance.random() < 0.8 else text(300)
    return name, value


class Exchange:
    """What the other side has received."""

    def __init__(self):
        self.expected, self.instructions, self.inserts = {}, [], 0

    def send(self, line):
        print(line, flush=True)
        response = json.loads(sys.stdin.readline())
        encoder.feed_decoder(bytes.fromhex(response["feedback"]))
        for stream, fields, encoded in response["decoded"]:
            fields = [(bytes.fromhex(name), bytes.fromhex(value)) for name, value in fields]
            assert fields == self.expected.pop(stream), f"seed {seed}, stream {stream}: {fields}"
            _, again = decoder.feed_header(stream, bytes.fromhex(encoded))
            assert again == fields, f"seed {seed}, stream {stream}, encoded by the other side: {again}"

    def encode(self, number):
        stream = 4 * number
        self.expected[stream] = [field() for _ in range(chance.randrange(1, 12))]
        instructions, section = encoder.encode(stream, self.expected[stream])
        self.inserts += len(instructions)
        if instructions:
            self.instructions.append(instructions)
        # The streams are independent: instructions may arrive after the section that needs them, and in parts.
        if chance.random() < 0.5:
            self.deliver()
        self.send(f"S {stream} {section.hex()}")
        if chance.random() < 0.5:
            self.deliver()

    def deliver(self):
        instructions, self.instructions = b"".join(self.instructions), []
        while instructions:
            length = chance.randrange(1, len(instructions) + 1)
            self.send(f"I {instructions[:length].hex()}")
            instructions = instructions[length:]


exchange = Exchange()
exchange.instructions.append(encoder.apply_settings(capacity, blocked))
for number in range(lists):
    exchange.encode(number)
exchange.deliver()
assert not exchange.expected, f"seed {seed}: {len(exchange.expected)} lists were not decoded"
assert exchange.inserts > 0 or capacity == 0, "the dynamic table is used"
