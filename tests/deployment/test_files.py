"""The files of deploy/ are right, as far as can be told without Docker and without a cluster."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from tests.deployment.checks import alerts, chart, compose, image, units
from tests.support.pages import ROOT, blocks

DEPLOY = ROOT / "deploy"
REDIS = {"existingSecret": "redis"}
OFF = {"enabled": False}
# What values.schema.json refuses: a misspelt, a missing and a wrong one of each kind.
REFUSED: list[dict[str, object]] = [
    {"monitor": OFF},
    {"redis": {}, "monitor": OFF},
    {"redis": {**REDIS, "url": "redis://db"}, "monitor": OFF},
    {"redis": REDIS, "monitor": OFF, "worker": {}},
    {"redis": REDIS, "monitor": OFF, "workers": {"Gpu": {}}},
    {"redis": REDIS, "monitor": OFF, "workers": {"gpu": {"replica": 2}}},
    {"redis": REDIS, "monitor": OFF, "workers": {"gpu": {"concurrency": 0}}},
    {"redis": REDIS, "monitor": OFF, "workers": {"gpu": {"queues": "gpu"}}},
    {"redis": REDIS, "monitor": OFF, "workers": {"gpu": {"queues": ["GPU"]}}},
    {"redis": REDIS, "monitor": OFF, "workers": {"gpu": {"autoscaling": {"target": 80}}}},
    {"redis": REDIS, "monitor": OFF, "settings": {"redis_url": "redis://db"}},
    {"redis": REDIS, "monitor": OFF, "image": {"digest": "latest"}},
    {"redis": REDIS, "monitor": OFF, "scheduler": {"replicas": 0}},
    {"redis": REDIS, "monitor": OFF, "drainSeconds": "20s"},
    {"redis": REDIS, "monitor": OFF, "settings": {"archive": "s3://bucket/runs"}},
    {"redis": REDIS, "monitor": OFF, "archive": {"retention": 86400}},
]
# What the templates refuse, and why.
REFUSALS: list[tuple[dict[str, object], str]] = [
    ({"redis": REDIS}, "name an authSecret or a usersSecret"),
    (
        {
            "redis": REDIS,
            "monitor": OFF,
            "workers": {"default": {"autoscaling": {"enabled": True}}},
        },
        "autoscaling asks the monitor",
    ),
    (
        {
            "redis": REDIS,
            "monitor": {"usersSecret": {"name": "users"}},
            "workers": {"default": {"autoscaling": {"enabled": True}}},
        },
        "name a Secret with a token",
    ),
    (
        {"redis": REDIS, "monitor": OFF, "archive": {"url": "/srv/runs"}},
        "archive.volume: a directory needs a volume",
    ),
]


def test_the_units_are_right() -> None:
    assert list(units.complaints(DEPLOY)) == []


def test_systemd_understands_the_drop_in_of_the_manual(tmp_path: Path) -> None:
    (drop_in,) = [text for text in blocks("installing.md", "text") if text.startswith("[Service]")]
    unit = Path(shutil.copy(DEPLOY / "systemd" / "sleipnir-worker.service", tmp_path))
    (tmp_path / "sleipnir-worker.service.d").mkdir()
    (tmp_path / "sleipnir-worker.service.d" / "override.conf").write_text(drop_in)

    assert units.ignored_by_systemd(unit) == []


@pytest.mark.deploy
def test_the_compose_file_is_right() -> None:
    assert list(compose.complaints(DEPLOY)) == []


def test_the_alerts_and_the_dashboard_are_right(tmp_path: Path) -> None:
    assert list(alerts.complaints(DEPLOY, tmp_path)) == []


@pytest.mark.deploy
def test_the_image_is_right() -> None:
    assert list(image.complaints(DEPLOY)) == []


@pytest.mark.deploy
def test_the_chart_is_right(tmp_path: Path) -> None:
    assert list(chart.complaints(DEPLOY, tmp_path)) == []


@pytest.mark.deploy
@pytest.mark.parametrize("values", REFUSED, ids=str)
def test_the_chart_refuses_what_it_does_not_know(values: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))

    _, error = chart.render(DEPLOY / "helm" / "sleipnir", tmp_path / "values.yaml")

    assert "values don't meet the specifications of the schema" in error


@pytest.mark.deploy
@pytest.mark.parametrize(("values", "reason"), REFUSALS)
def test_the_chart_says_what_it_lacks(
    values: dict[str, object], reason: str, tmp_path: Path
) -> None:
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))

    _, error = chart.render(DEPLOY / "helm" / "sleipnir", tmp_path / "values.yaml")

    assert reason in error
