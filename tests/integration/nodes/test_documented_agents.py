"""The agents of the documentation do what is said beside them."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.support.engine import Engine
from tests.support.pages import blocks

GRAPHS = {
    yaml.safe_load(text)["name"]: text for text in blocks("language.md", "yaml") if "name:" in text
}
# A script begins with its path.
SCRIPTS = {
    match[1]: text
    for text in blocks("language.md", "python")
    if (match := re.match(r"# ([\w/.]+):", text))
}


def body(name: str) -> str:
    """A graph without its name, which the engine of tests writes."""
    return GRAPHS[name].removeprefix(f"name: {name}\n")


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("welcome", "Hello Ada. This was Sleipnir."),
        ("count-down", "Lift off."),
        ("rounds", "round 3"),
        ("improve", "1"),
        ("echo", "You said: Ada"),
    ],
)
def test_an_example_of_the_language_runs(engine: Engine, name: str, output: str) -> None:
    run = engine.finish(body(name), SCRIPTS, prompt="Ada")

    assert run.output == output
