"""The transition that extending.md shows is one."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.store import scripts
from tests.support.engine import Engine
from tests.support.pages import blocks


def test_the_transition_of_extending_md_is_one(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (text,) = blocks("extending.md", "lua")
    monkeypatch.setattr(scripts, "source_of", {"mark_run": text}.__getitem__)

    whole = scripts.compose("mark_run", {})

    assert engine.redis.script_load(whole)
