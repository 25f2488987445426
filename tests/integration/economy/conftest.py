"""An engine whose model calls can wait for batches."""

from __future__ import annotations

import pytest

from tests.support.economy import answer
from tests.support.engine import Engine
from tests.support.model_server import ModelServer


@pytest.fixture
def economical(engine: Engine, server: ModelServer) -> Engine:
    """An engine whose models have a price: 1 USD for a million tokens."""
    engine.configure(models={"prices": {"openai:m": {"prompt": 1, "completion": 1}}})
    server.script.when(lambda _: True, answer)
    return engine
