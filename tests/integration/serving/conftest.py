"""Agents that a site serves, and a worker that executes them meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.driving import driven
from tests.support.engine import Engine
from tests.support.site import ServedSite

ECHO = 'start: done\nnodes: {done: {type: end, output: "{{initial_prompt}}"}}'


@pytest.fixture
def site(engine: Engine) -> Iterator[ServedSite]:
    """A site that serves all agents but those whose names begin with `own`."""
    engine.configure(serve={"agents": ["[!o]*", "other"], "mcp": True, "openai": True})
    engine.write("echo", ECHO)
    engine.write("own", ECHO)
    with driven(engine), ServedSite(engine.client) as served:
        yield served
