"""A site over the engine of a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sleipnir.scheduler.config.monitor_users import ROLES, new_line
from tests.support.engine import Engine
from tests.support.site import ServedSite


@pytest.fixture
def site(engine: Engine) -> Iterator[ServedSite]:
    """The monitor's pages of the engine's runs."""
    with ServedSite(engine.client) as served:
        yield served


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """A file with somebody of each role, and a program."""
    file = tmp_path / "users"
    roles = [(f"{role}r", role) for role in ROLES] + [("api-bot", "answer")]
    lines = [new_line(name, role, f"pass:{name}") for name, role in roles]
    file.write_text("\n".join(["# ours", "", *lines]))
    return file
