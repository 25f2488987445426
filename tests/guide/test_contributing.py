"""The test in CONTRIBUTING.md, which shows how tests are written, is one that passes."""

from __future__ import annotations

from typing import Any

from tests.support.engine import Engine
from tests.support.pages import blocks


def test_the_example_of_a_test_passes(engine: Engine) -> None:
    (text,) = blocks("CONTRIBUTING.md", "python")
    names: dict[str, Any] = {}

    exec(text, names)

    (test,) = (function for name, function in names.items() if name.startswith("test_"))
    test(engine)
