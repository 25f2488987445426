"""Backups of the embedded engine, made and restored as the manual says."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.command_line import Sleipnir


def test_an_embedded_engine_is_restored_from_a_copy(tmp_path: Path) -> None:
    sleipnir = Sleipnir(tmp_path)
    sleipnir.write("echo", "start: z\nnodes:\n  z: {type: end, output: '{{initial_prompt}}'}\n")
    sleipnir("run", "echo", "hello")
    before = sleipnir.json("ps", "--all")
    data = Path(sleipnir.environment["SLEIPNIR_DATA_DIR"]) / "redis"
    shutil.move(data, tmp_path / "backup")
    assert sleipnir("ps", "--all", "--json").stdout == ""
    shutil.rmtree(data)

    shutil.copytree(tmp_path / "backup", data)

    after = sleipnir.json("ps", "--all")
    assert after["run_id"] == before["run_id"]
    assert after["status"] == "succeeded"
    assert sleipnir("doctor", "--verify").returncode == 0
