"""Agents that a site serves, and a worker that executes them meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from openai import OpenAI

from tests.support.driving import driven
from tests.support.engine import Engine
from tests.support.site import KEY, ServedSite

ECHO = 'start: done\nnodes: {done: {type: end, output: "{{initial_prompt}}"}}'


@pytest.fixture
def idle_site(engine: Engine) -> Iterator[ServedSite]:
    """A site that serves all agents but `own`; nobody executes their runs."""
    engine.configure(serve={"agents": ["[!o]*"], "mcp": True, "openai": True})
    engine.write("echo", ECHO)
    engine.write("own", ECHO)
    with ServedSite(engine.client) as served:
        yield served


@pytest.fixture
def site(engine: Engine, idle_site: ServedSite) -> Iterator[ServedSite]:
    """The same with a worker."""
    with driven(engine):
        yield idle_site


@pytest.fixture
def chat(site: ServedSite) -> Iterator[OpenAI]:
    """The published client, unchanged."""
    with OpenAI(base_url=f"http://127.0.0.1:{site.port}/v1", api_key=KEY) as client:
        yield client
