"""Messages that no sensor sends."""

import json
import random

from elmgrove.device.sources.mqtt import MOST_NAMES


def hostile() -> dict[str, str | bytes]:
    """What no sensor sends."""
    many = {f"k{number}": number for number in range(MOST_NAMES + 10)}
    return {
        "binary": bytes(range(256)),
        "zeros": bytes(1000),
        "deep": '{"temp": ' + "[" * 100_000 + "]" * 100_000 + "}",
        "deep object": '{"temp": ' * 50_000 + "1" + "}" * 50_000,
        "no number": '{"temp": NaN, "flow": 1}',
        "endless": '{"temp": 1e999, "flow": -Infinity}',
        "digits": '{"temp": ' + "9" * 10_000 + ', "flow": 1}',
        "null": "null,null",
        "many": json.dumps(many),
        "cells": ",".join("1" * 20_000),
        "quote": '"1,2',
        "text": '{"temp": "warm", "flow": {}}',
        "surrogate": '{"temp": "\\ud800", "flow": 1}',
        "half": '{"temp": 1, "flow"',
        "gzip": b"\x1f\x8b\x08\x00" + bytes(50),
        "workbook": b"PK\x03\x04[Content_Types].xml",
        "long": '{"temp": "' + "x" * 900_000 + '"}',
    }


def random_messages(number: int, seed: int) -> list[bytes]:
    """Rows that were damaged, each in some way of its own, and bytes that never were one."""
    rng = random.Random(seed)
    found = list[bytes]()
    for _ in range(number):
        row = bytearray(b'{"rpm": 1400.5, "temp": 61.25, "volt": 230, "amp": 6.5}')
        for _ in range(rng.randint(1, 8)):
            place = rng.randrange(len(row))
            kind = rng.randrange(3)
            if kind == 0:
                row[place] = rng.randrange(256)
            elif kind == 1:
                del row[place:]
                row += b"{"
            else:
                row[place:place] = rng.randbytes(rng.randint(1, 40))
        found.append(bytes(row) if rng.random() < 0.8 else rng.randbytes(rng.randint(1, 400)))
    return found
