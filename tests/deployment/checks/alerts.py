"""What is wrong with the alert rules and the dashboard."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.support.pages import ROOT
from tests.support.promtool import find_promtool

_NAME = re.compile(r"\bsleipnir_\w+")
# What histograms and counters add to the names of their families.
_ENDINGS = ("_bucket", "_sum", "_count", "_total")


def complaints(deploy: Path, scratch: Path) -> Iterator[str]:
    """Yield what is wrong; `scratch` is for a checker that has to be fetched."""
    directory = deploy / "prometheus"
    promtool = find_promtool(scratch)
    for command in (("check", "rules", "alerts.yaml"), ("test", "rules", "alerts_test.yaml")):
        done = subprocess.run(
            [promtool, *command], cwd=directory, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            yield f"promtool {' '.join(command)}: {done.stdout}{done.stderr}"
    (group,) = yaml.safe_load((directory / "alerts.yaml").read_text())["groups"]
    tests = yaml.safe_load((directory / "alerts_test.yaml").read_text())["tests"]
    silent = {
        case["alertname"]
        for test in tests
        for case in test.get("alert_rule_test", ())
        if not case["exp_alerts"]
    }
    served = _served_names()
    for rule in group["rules"]:
        for complaint in (*_of_rule(rule), *_of_expression(rule["expr"], served)):
            yield f"{rule['alert']}: {complaint}"
        if rule["alert"] not in silent:
            yield f"{rule['alert']}: no test shows when it is silent"
    dashboard = json.loads((directory / "grafana-dashboard.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            for complaint in _of_expression(target["expr"], served):
                yield f"dashboard, {panel['title']}: {complaint}"


def _of_rule(rule: dict[str, Any]) -> Iterator[str]:
    annotations = rule.get("annotations", {})
    if rule.get("labels", {}).get("severity") not in ("page", "ticket"):
        yield "it does not say how urgent it is"
    for name in ("summary", "description", "runbook_url"):
        if not annotations.get(name):
            yield f"it has no {name}"
    page, _, heading = annotations.get("runbook_url", "").partition("#")
    if page and heading not in _headings(page):
        yield f"there is no heading {heading} in {page}"


def _of_expression(expression: str, served: str) -> Iterator[str]:
    for name in _NAME.findall(expression):
        plain = next((name.removesuffix(end) for end in _ENDINGS if name.endswith(end)), name)
        if f'"{name}"' not in served and f'"{plain}"' not in served:
            yield f"there is no figure {name}"


def _served_names() -> str:
    files = (ROOT / "worker/monitor").glob("*metrics.py")
    return "".join(file.read_text() for file in files)


def _headings(page: str) -> list[str]:
    lines = (ROOT / page).read_text().splitlines() if (ROOT / page).exists() else []
    return [line.lstrip("# ").lower().replace(" ", "-") for line in lines if line.startswith("#")]
