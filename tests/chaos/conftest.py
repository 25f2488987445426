"""What fault tests share: a seed that is printed, and the check that ends them all."""

from __future__ import annotations

import os
import random
import secrets

import pytest


@pytest.fixture
def rng() -> random.Random:
    """The dice of one test. What it printed, given as CHAOS_SEED, throws the same again."""
    seed = os.environ.get("CHAOS_SEED") or secrets.token_hex(4)
    print(f"CHAOS_SEED={seed}")  # noqa: T201 - pytest shows it where a test fails
    return random.Random(seed)
