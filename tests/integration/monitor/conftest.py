"""A site over the engine of a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.engine import Engine
from tests.support.site import ServedSite


@pytest.fixture
def site(engine: Engine) -> Iterator[ServedSite]:
    """The monitor's pages of the engine's runs."""
    with ServedSite(engine.client) as served:
        yield served
