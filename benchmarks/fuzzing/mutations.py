"""Changes of files by chance: of their bytes, and of what they mean."""

import io
import json
import random
import tomllib
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import tomli_w

Mutation = Callable[[bytes, random.Random], bytes]
WORDS = (
    b"", b"\0", b"\xff" * 4, b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x80" * 8, b"NaN",
    b"1e999", b"-1", b"99999999999999999999", b"9999-12-31", b"0001-01-01", b'"', b",", b"\n",
    b"\r", b"=1+1",
    b"\xef\xbb\xbf", b"\xed\xa0\x80", b"[/a]", b"../../x", b"\x1b[2J", b"O", b"<U0", b"|V8", b"'O'",
)  # fmt: skip
VALUES = (
    None, True, 0, -1, 3, 10**30, 0.5, -1e308, float("nan"), float("inf"), "", "x", "\x1b[2J",
    "[/a]",
    "../../x", "9" * 5000, [], [[]], [1, "a"], {}, {"a": 1}, ["x"] * 50, [0] * 50,
)  # fmt: skip


def change_bytes(content: bytes, rng: random.Random) -> bytes:
    """Flip, overwrite, insert, delete, repeat or cut bytes, one to eight times."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        place = rng.randrange(len(data) + 1)
        length = min(rng.choice((1, 1, 2, 4, 8, 64)), len(data) - place)
        kind = rng.randrange(6)
        if kind == 0 and length:
            data[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[place : place + length] = rng.randbytes(length)
        elif kind == 2:
            data[place:place] = rng.choice(WORDS)
        elif kind == 3:
            del data[place : place + length]
        elif kind == 4:
            data[place:place] = data[place : place + length] * rng.choice((1, 2, 50))
        elif kind == 5 and rng.random() < 0.3:
            del data[place:]
    return bytes(data)


def change_members(content: bytes, rng: random.Random) -> bytes:
    """Change the bytes of one member of a zip archive; the archive's checksums stay right."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
        packing = archive.infolist()[0].compress_type
    name = rng.choice(list(members))
    head = 128 if rng.random() < 0.7 else len(members[name])  # mostly the header of the array
    members[name] = change_bytes(members[name][:head], rng) + members[name][head:]
    if rng.random() < 0.1:
        del members[rng.choice(list(members))]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", packing) as archive:
        for each, packed in members.items():
            archive.writestr(each, packed)
    return buffer.getvalue()


def change_cells(content: bytes, rng: random.Random) -> bytes:
    """Change cells, rows and columns of a CSV file."""
    rows = [line.split(b",") for line in content.split(b"\n")]
    for _ in range(rng.choice((1, 2, 5))):
        row = rng.choice(rows)
        kind = rng.randrange(4)
        if kind == 0 and row:
            row[rng.randrange(len(row))] = rng.choice(WORDS)
        elif kind == 1:
            rows.insert(rng.randrange(len(rows)), list(row) * rng.choice((0, 1, 2)))
        elif kind == 2:
            column = rng.randrange(4)
            word = rng.choice(WORDS)
            for each in rows[1:]:
                if column < len(each):
                    each[column] = word
        elif row:
            del row[rng.randrange(len(row))]
    return b"\n".join(b",".join(row) for row in rows)


def change_png(content: bytes, rng: random.Random) -> bytes:
    """Change the header of a PNG or its first chunks, with right checksums."""
    if content[:4] != b"\x89PNG":
        return change_bytes(content, rng)
    chunks, place = [], 8
    while place + 8 <= len(content):
        size = int.from_bytes(content[place : place + 4], "big")
        chunks.append([content[place + 4 : place + 8], content[place + 8 : place + 8 + size]])
        place += 12 + size
    chunk = rng.choice(chunks)
    chunk[1] = change_bytes(chunk[1], rng)
    packed = [
        len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")
        for kind, data in chunks
    ]
    return content[:8] + b"".join(packed)


def change_json(content: bytes, rng: random.Random) -> bytes:
    """Replace, remove or add values anywhere in JSON, or in each line of it."""
    lines = [content] if content.lstrip()[:1] != b"{" or b"\n{" not in content else None
    texts = lines or content.splitlines()
    place = rng.randrange(len(texts))
    changed = json.dumps(change_value(json.loads(texts[place]), rng)).encode()
    return b"\n".join([*texts[:place], changed, *texts[place + 1 :]])


def change_toml(content: bytes, rng: random.Random) -> bytes:
    """Replace, remove or add values anywhere in TOML; it cannot hold all values of JSON."""
    changed = change_value(tomllib.loads(content.decode()), rng)
    try:
        return tomli_w.dumps(changed).encode()
    except (AttributeError, TypeError):
        return change_bytes(content, rng)


def change_tensors(content: bytes, rng: random.Random) -> bytes:
    """Change the JSON header of a safetensors file, or the tensors behind it."""
    start = 8 + int.from_bytes(content[:8], "little")
    header, tensors = content[8:start], content[start:]
    if rng.random() < 0.7:
        header = rng.choice((change_json, change_bytes))(header, rng)
    else:
        tensors = change_bytes(tensors, rng)
    return len(header).to_bytes(8, "little") + header + tensors


def change_value(value: Any, rng: random.Random) -> Any:
    """Return the value with a change at a place that chance chooses."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.15:
        return rng.choice(VALUES)
    key: Any = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
    if rng.random() < 0.15:
        del value[key]
    else:
        value[key] = change_value(value[key], rng)
    return value
