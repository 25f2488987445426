"""What acceptance tests share: engines as `sleipnir up` runs them, and a browser on pages."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Person, chromium
from tests.support.command_line import Sleipnir
from tests.support.engine import Engine
from tests.support.model_server import ModelServer
from tests.support.site import ServedSite

# What the files of `loki_machine` name.
SECRETS = {
    "ALMANAC_TOKEN": "moonlight-sonata",
    "DELIVERY_CODE": "wheelbarrow-77",
    "LAB_KEY": "quartz-and-loam",
}


@pytest.fixture(scope="module")
def shared_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sleipnir]:
    """An engine that is up for the tests of a file."""
    command = Sleipnir(tmp_path_factory.mktemp("shared"))
    with command.up():
        yield command


@pytest.fixture
def own_project(shared_engine: Sleipnir, tmp_path: Path) -> Sleipnir:
    """The command in a project and with settings of its own, on the engine that is up."""
    return Sleipnir(tmp_path, SLEIPNIR_DATA_DIR=shared_engine.environment["SLEIPNIR_DATA_DIR"])


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """What the engine of `loki_machine` takes for a provider; tests script it."""
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="module")
def loki_machine(
    tmp_path_factory: pytest.TempPathFactory, server: ModelServer
) -> Iterator[Sleipnir]:
    """An engine on a copy of the files in `loki_machine/`, up for the tests of a file."""
    directory = tmp_path_factory.mktemp("machine")
    config = directory / "config"
    shutil.copytree(Path(__file__).with_name("loki_machine"), config)
    (config / "secrets.yaml").write_text(json.dumps(SECRETS))
    (config / "secrets.yaml").chmod(0o600)
    command = Sleipnir(
        directory,
        PATH=f"{config / 'bin'}{os.pathsep}{os.environ['PATH']}",
        OPENAI_BASE_URL=server.base_url,
        OPENAI_API_KEY="sk-only-for-this-test",
    )
    with command.up():
        yield command


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser for the tests of a file."""
    with chromium() as started:
        yield started


@pytest.fixture
def site(engine: Engine) -> Iterator[ServedSite]:
    """The monitor's pages of the engine's runs."""
    with ServedSite(engine.client) as served:
        yield served


@pytest.fixture
def person(browser: Any, site: ServedSite) -> Iterator[Person]:
    """Somebody who has opened the monitor's link."""
    visitor = Person(browser, site)
    yield visitor
    visitor.context.close()
