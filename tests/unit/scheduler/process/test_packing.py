"""Long values are stored compressed, read back as they were, and never unpack to anything large."""

from __future__ import annotations

import json
import zlib

import pytest

from sleipnir.graphs.state import encode
from sleipnir.scheduler.errors import ForgedValue
from sleipnir.scheduler.process.packing import (
    ENCODING_ERRORS,
    LEAST_BYTES,
    MOST_BYTES,
    as_stored,
    pack,
    unpack,
)
from tests.support.noise import noise


def decoded(value: bytes | str) -> str:
    """Return a value as a client of Redis returns it."""
    data = value if isinstance(value, bytes) else value.encode(errors="surrogatepass")
    return data.decode(errors=ENCODING_ERRORS)


@pytest.mark.parametrize("text", ["a" * 5_000, "Grüße, 世界 " * 80, "\ud800 half a pair " * 60])
def test_a_long_value_takes_less_and_is_read_back(text: str) -> None:
    whole = encode({"text": text})

    stored = pack(whole)

    assert isinstance(stored, bytes)
    assert len(stored) < len(whole.encode(errors="surrogatepass")) / 2
    assert unpack(decoded(stored)) == whole
    assert as_stored(decoded(stored)) == stored


def test_what_is_short_and_what_is_huge_stays_text() -> None:
    short, huge = '{"k":"' + "x" * (LEAST_BYTES - 9) + '"}', '{"k":"' + "x" * MOST_BYTES + '"}'

    assert [pack(short), pack(huge)] == [short, huge]
    assert unpack(decoded(short)) == short


def test_members_put_in_front_of_a_packed_value_are_its_own() -> None:
    stored = pack(encode({"step": 3, "text": noise(2_000, 1)}))
    assert isinstance(stored, bytes)

    stamped = stored[:1] + b'"superseded_by":2,"at":17,' + stored[1:]

    assert list(json.loads(unpack(decoded(stamped)))) == ["superseded_by", "at", "step", "text"]


@pytest.mark.parametrize(
    "body",
    [
        zlib.compress(b"{" + b" " * MOST_BYTES),
        zlib.compress(b'{"k":"x"}' * 100)[:-5],
        zlib.compress(b"[1]"),
        b"nothing that was compressed",
        b"",
    ],
)
def test_a_value_that_nobody_can_have_packed_is_refused(body: bytes) -> None:
    with pytest.raises(ForgedValue, match="a value that Sleipnir has not stored"):
        unpack(decoded(b"\xff\n" + body))
