"""What `make run` says to somebody who has not set a model yet."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def told(place: Path, agent: str, status: int, **environment: str) -> str:
    """Standard error of the script where `sleipnir run` ends with a status."""
    files = {
        "scripts/run": (ROOT / "scripts" / "run").read_text(),
        ".venv/bin/sleipnir": f"#!/bin/sh\nexit {status}\n",
    }
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    given = {"PATH": os.environ["PATH"], "AGENT": agent, "PROMPT": "x"} | environment
    done = subprocess.run(
        [place / "scripts" / "run"], env=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == status
    return done.stderr


def test_whoever_has_no_model_is_told_how_to_set_one(tmp_path: Path) -> None:
    text = told(tmp_path, "oracle", 3)

    assert "export SLEIPNIR_MODEL=" in text
    assert "--replay" not in text


def test_deep_research_can_be_seen_without_a_key(tmp_path: Path) -> None:
    text = told(tmp_path, "deep-research", 3)

    assert "make run AGENT=deep-research ARGS='--answer approve=accept --replay'\n" in text


@pytest.mark.parametrize(("status", "model"), [(1, ""), (3, "openai:gpt-4o-mini")])
def test_other_failures_are_not_put_down_to_the_model(
    tmp_path: Path, status: int, model: str
) -> None:
    assert told(tmp_path, "deep-research", status, SLEIPNIR_MODEL=model) == ""
