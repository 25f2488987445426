"""Programs that check files of others' formats: Python packages run by uv, and Helm."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.support.pages import ROOT

HELM = "helm.sh/helm/v3/cmd/helm@v3.22.0"
# Where `make deploy-check` puts what takes long to build.
BUILT = ROOT / ".deploy-tools"


def run_tool(package: str, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of a package, such as `yamllint==1.37.1`, which is fetched if need be.

    Without it the test is skipped, or fails on CI.
    """
    uv = Path(sys.executable).with_name("uv")
    prefix = [str(uv), "tool", "run", "--quiet", "--from", package]
    _require_tool(tuple(prefix), command)
    return subprocess.run(
        [*prefix, command, *arguments], capture_output=True, text=True, check=False
    )


@cache
def _require_tool(prefix: tuple[str, ...], command: str) -> None:
    done = subprocess.run(
        [*prefix, command, "--version"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        _give_up(f"{command} cannot be fetched: {done.stderr[-200:]}")


@cache
def find_helm() -> Path:
    """Return Helm: installed, or built from its Go module by `make deploy-check`."""
    if installed := shutil.which("helm"):
        return Path(installed)
    built = BUILT / "helm"
    if not built.exists():
        _give_up("helm is missing: install it, or Go for `make deploy-check` to build it")
    return built


def _give_up(reason: str) -> None:
    give_up = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
    give_up(reason)
