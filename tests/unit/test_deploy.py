"""The files in deploy/ fit the product: units start, stop in time and know where data is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sleipnir.scheduler.config.settings import Settings
from tests.support.pages import ROOT

UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_has_a_data_directory_and_time_to_stop(unit: Path) -> None:
    lines = dict(re.findall(r"^(\w+)=(.+)$", unit.read_text(), re.MULTILINE))

    # Its user may have no home directory.
    assert lines["Environment"] == "SLEIPNIR_DATA_DIR=/var/lib/" + lines["StateDirectory"]
    assert float(lines["TimeoutStopSec"]) >= Settings().drain_s + 20
    assert lines["RestartPreventExitStatus"] == "2"


def test_units_exist_for_every_process() -> None:
    assert [unit.stem for unit in UNITS] == [
        "sleipnir-monitor",
        "sleipnir-scheduler",
        "sleipnir-up",
        "sleipnir-worker",
    ]
