"""The alert rules fire for what they are named after, and for nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.pages import ROOT
from tests.support.promtool import find_promtool

RULES = ROOT / "deploy" / "prometheus"


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((RULES / "alerts.yaml").read_text())["groups"]
    return list(group["rules"])


def test_rules_fire_for_their_causes_and_not_without(tmp_path: Path) -> None:
    promtool = find_promtool(tmp_path)

    for command in (("check", "rules", "alerts.yaml"), ("test", "rules", "alerts_test.yaml")):
        done = subprocess.run(
            [promtool, *command], cwd=RULES, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_a_rule_says_how_urgent_it_is_and_what_to_read(rule: dict[str, Any]) -> None:
    page, _, heading = rule["annotations"]["runbook_url"].partition("#")
    headings = [
        line.lstrip("# ").lower().replace(" ", "-")
        for line in (ROOT / page).read_text().splitlines()
        if line.startswith("#")
    ]

    assert rule["labels"]["severity"] in ("page", "ticket")
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["description"]
    assert heading in headings
