"""One engine for all acceptance tests, as `sleipnir up` runs it; its commands are processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.command_line import Sleipnir


@pytest.fixture(scope="session")
def shared_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sleipnir]:
    """An engine that is up for the whole session."""
    command = Sleipnir(tmp_path_factory.mktemp("shared"))
    with command.up():
        yield command
