"""The page about Slack, typed in as it stands; a server of the test stands for Slack."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from tests.support.command_line import Sleipnir
from tests.support.pages import blocks
from tests.support.sentinels import free_ports
from tests.support.wait import wait_until
from tests.support.web_server import Page, WebServer


@pytest.fixture
def channel() -> Iterator[WebServer]:
    with WebServer({"/services": Page("ok")}) as server:
        yield server


@pytest.fixture
def sleipnir(tmp_path: Path, channel: WebServer) -> Sleipnir:
    """With a home of its own, in which the page writes."""
    (tmp_path / "home").mkdir()
    url = f"json://127.0.0.1:{channel.port}/services"
    command = Sleipnir(tmp_path, HOME=str(tmp_path / "home"), SLACK_URL=url)
    for name in ("SLEIPNIR_CONFIG_DIR", "XDG_CONFIG_HOME"):
        command.environment.pop(name, None)
    return command


def messages(channel: WebServer) -> list[str]:
    """What the channel was told, in order, each with its title."""
    told = (json.loads(visit.body) for visit in channel.visits)
    return [f"{each['title']}\n{each['message']}" for each in told]


def answer(site: str, path: str, text: str) -> None:
    """Answer as a browser does that has opened a link."""
    headers = {"Sec-Fetch-Site": "same-origin"}
    form = urlencode({"answer": text}).encode()
    urllib.request.urlopen(urllib.request.Request(site + path, form, headers)).close()


def test_a_channel_is_asked_and_answers_as_written(sleipnir: Sleipnir, channel: WebServer) -> None:
    agent, config, tried, asked, looked = blocks("ask-in-slack.md", "bash")
    _, shown = blocks("ask-in-slack.md", "text")
    (port,) = free_ports(1)

    written = sleipnir.type_in(agent + config, sleipnir.project)
    with sleipnir.up("--port", str(port)):
        reached = sleipnir.type_in(tried, sleipnir.project)
        assert "delivered in" in reached.stdout
        submitted = sleipnir.type_in(asked, sleipnir.project)
        wait_until(lambda: len(channel.visits) >= 2, "the question has arrived")
        (link,) = re.findall(r"^Answer at (\S+)", messages(channel)[1], re.MULTILINE)
        answer(f"http://127.0.0.1:{port}", urlsplit(link).path, "publish")
        wait_until(lambda: len(channel.visits) >= 3, "the answer was told")
        run = sleipnir("watch", submitted.stdout.split()[-1])
        left = sleipnir.type_in(looked, sleipnir.project)

    for done in (written, reached, submitted, left):
        assert done.returncode == 0, done.stdout
    _, question, answered = messages(channel)
    title, first, *lines = question.splitlines()
    assert first == f"{title}."
    as_told = re.sub(r"[0-9a-f]{16}", "4f1d6c2a9b3e8d70", "\n".join([title, *lines]))
    assert re.sub(r"/a/\S+", "/a/…", as_told) == shown.strip()
    assert "was answered" in answered
    assert run.stdout.endswith("Published: the spring newsletter\n")
    assert re.search(r" publish +succeeded ", left.stdout)
