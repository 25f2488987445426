"""What the text of every script keeps to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sleipnir.scheduler.store import keys, scripts
from sleipnir.scheduler.store.scripts import compose, script_names

DIRECTORY = Path(scripts.__file__).with_name("lua")
OWN_WRITES = DIRECTORY / "lib/atomic.lua"
READING = {
    *("EXISTS", "PTTL", "TIME", "TYPE"),
    *("GET", "MGET", "STRLEN"),
    *("HEXISTS", "HGET", "HGETALL", "HKEYS", "HLEN", "HMGET", "HSTRLEN", "HVALS"),
    *("LINDEX", "LLEN", "LPOS", "LRANGE"),
    "SISMEMBER",
    *("ZCARD", "ZCOUNT", "ZRANGE", "ZRANGEBYLEX", "ZRANGEBYSCORE", "ZSCORE"),
    *("XLEN", "XRANGE", "XREVRANGE"),
}


@pytest.mark.parametrize("file", sorted(DIRECTORY.rglob("*.lua")), ids=lambda file: file.stem)
def test_what_writes_goes_through_the_functions_that_can_take_it_back(file: Path) -> None:
    # Under another name, or with a command that is not written there, it could be anything.
    called = re.findall(r"\bredis\b(?!\.sha1hex)(?:\.p?call\(\s*'(\w+)')?", _code_of(file))

    assert file == OWN_WRITES or set(called) <= READING


def _code_of(file: Path) -> str:
    return re.sub(r"--.*", "", file.read_text(encoding="utf-8"))


def test_a_running_process_keeps_the_scripts_it_has_begun_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scripts.read_all()
    monkeypatch.setattr(scripts, "_HERE", Path("/upgraded"))

    assert all(compose(name, {}) for name in script_names())


@pytest.mark.parametrize("name", script_names())
def test_a_wide_argument_list_goes_in_pieces(name: str) -> None:
    source = scripts.source_of(name)

    assert "unpack(rest" not in source


@pytest.mark.parametrize("name", script_names())
def test_a_script_has_the_parts_of_its_libraries_that_it_needs(name: str) -> None:
    text = compose(name, {})

    header = re.search(r"^-- USES +(.*)$", text, re.M)
    used = ["atomic", *(header[1].split() if header else ())]
    # Otherwise it would be found missing only where it runs.
    for library in used:
        source = (DIRECTORY / f"lib/{library}.lua").read_text(encoding="utf-8")
        for defined in re.findall(r"^(?:local )?function (\w+)\(", source, re.M):
            calls = len(re.findall(rf"\b{defined}\(", text))
            assert calls == 0 or f"function {defined}(" in text, (library, defined)


@pytest.mark.parametrize("name", script_names())
def test_what_a_script_seldom_needs_is_made_by_what_calls_it(name: str) -> None:
    text = compose(name, {})
    lazy = re.search(r"local function make_lazy\(\)(.*?)end\nfunction \w+\(\.\.\.\)", text, re.S)
    seldom = lazy[1] if lazy else ""
    common = text.replace(seldom, "")

    for defined in re.findall(r"^(?:local )?function (\w+)\(", seldom, re.M):
        calls = re.findall(rf"(?<![.\w]){defined}\(", re.sub(r"'[^'\n]*'", "", common))
        door = f"function {defined}(...) make_lazy() return {defined}(...) end"
        assert bool(calls) == (door in common), defined


def test_a_step_that_goes_on_has_no_use_for_what_ends_a_run() -> None:
    text = compose("advance_step", {})

    before = text[: text.index("local function make_lazy()")]
    assert "function forget_visit(" in before
    assert "function close_visits(" not in before


@pytest.mark.parametrize("file", sorted(DIRECTORY.rglob("*.lua")), ids=lambda file: file.stem)
def test_every_key_is_in_the_key_map(file: Path) -> None:
    code = _code_of(file)
    kinds = set(re.findall(r"\b(?:key|id)\('([\w-]+)'", code))
    kinds |= set(re.findall(r"\.\. ':([\w-]+)", code))

    listed = set(re.findall(r"^ +(?:\{\w+\}:|sleipnir:)?([\w-]+)", keys.__doc__ or "", re.M))

    assert kinds <= listed
