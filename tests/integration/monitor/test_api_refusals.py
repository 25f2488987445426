"""Programs are told in JSON what is wrong with a request, whatever it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote, urlencode

import pytest

from sleipnir.worker.monitor.api.operations import OPERATIONS, Operation
from tests.support.engine import Engine
from tests.support.site import KEY, Answer, ServedSite

GRAPH = """
start: each
nodes:
  each: {type: map, over: "{{items}}", branch: one, as: item, collect_into: out, next: z}
  one: {type: script, script: one.sh}
  z: {type: end}
"""
FILES = {"one.sh": "echo '{\"output\": 1}'"}
ODD = ("٣", "9" * 4_400, "0000000019999", "-1", "1e3", "½", " ", "\N{NUL}", "a", "1.5", "0x10")
INDEXES = ("step", "from", "item", "call")
JSON = "application/json"


@pytest.fixture
def run_id(engine: Engine) -> str:
    return engine.finish(GRAPH, FILES, state={"items": [1, 2]}, batch="b").run_id


def reads(run_id: str) -> Iterator[tuple[Operation, str]]:
    """Every operation that reads, with an address of something that is there."""
    parts = {
        "run_id": run_id,
        "step": "1",
        "map": "each",
        "visit": "1",
        "name": "b",
        "agent": "agent",
    }
    parts |= {"evaluation": "e", "bulk_id": run_id}
    for operation in OPERATIONS:
        if operation.method == "GET":
            yield operation, re.sub(r"\{(\w+)\}", lambda part: parts[part[1]], operation.path)


def code_of(answer: Answer) -> str:
    assert answer.headers["Content-Type"] == JSON, answer.text[:200]
    return str(answer.json["error"]["code"])


def test_parameters_that_are_not_known_are_refused_by_name(site: ServedSite, run_id: str) -> None:
    for operation, path in reads(run_id):
        answer = site.ask(f"{path}?statu=failed")

        assert (answer.status, code_of(answer)) == (400, "bad_request"), path
        message = answer.json["error"]["message"]
        assert "'statu'" in message
        assert all(name in message for name in operation.query), message

    page = site.ask("/runs?statu=failed", headers={"Cookie": site.cookie})
    assert (page.status, "statu" in page.text) == (400, True)


def test_odd_values_of_parameters_are_refused_and_break_nothing(
    site: ServedSite, run_id: str
) -> None:
    for operation, path in reads(run_id):
        if operation.gives == "text/event-stream":
            continue
        for name in operation.query:
            for value in ODD:
                answer = site.ask(f"{path}?{urlencode({name: value})}")

                assert answer.status < 500, (path, name, value[:20], answer.text[:200])
                if name == "limit" and value.strip(" \N{NUL}"):
                    assert (answer.status, code_of(answer)) == (400, "bad_request"), path
                if name in INDEXES and not value.isdecimal() and value.strip(" \N{NUL}"):
                    assert (answer.status, code_of(answer)) == (400, "bad_request"), (path, name)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api", 404, "not_found"),
        ("GET", "/api/v1", 404, "not_found"),
        ("GET", "/api/v1/nothing", 404, "not_found"),
        ("GET", "/api/v1/runs/zzzz", 404, "not_found"),
        ("GET", "/api/v1/runs/0123456789abcdef", 404, "not_found"),
        ("GET", "/api/v1/runs/0123456789abcdef/nothing", 404, "not_found"),
        ("DELETE", "/api/v1/runs", 405, "method"),
        ("GET", "/api/v1/stream", 400, "bad_request"),
        ("GET", "/api/v1/stream?topics=nothing", 400, "bad_request"),
        ("GET", "/api/v1/agents/%ff", 400, "bad_request"),
        ("GET", f"/api/v1/questions/{'0' * 16}/{quote('٣')}/a/answer", 405, "method"),
    ],
)
def test_what_is_not_there_is_refused_in_json(
    method: str, path: str, status: int, code: str, site: ServedSite
) -> None:
    answer = site.ask(path, method)

    assert (answer.status, code_of(answer)) == (status, code)


def test_requests_that_reach_no_handler_are_refused_in_json(site: ServedSite) -> None:
    owner = {"Authorization": f"Bearer {KEY}"}
    refused = {
        "host": site.ask("/api/v1/me", headers=owner | {"Host": "evil.example"}),
        "origin": site.ask("/api/v1/limits", "POST", headers=owner | {"Origin": "http://evil"}),
        "too_large": site.ask(
            "/api/v1/limits", "POST", headers=owner | {"Content-Length": f"{2 << 20}"}
        ),
        "unauthorized": site.ask("/api/v1/me", headers={}),
        "not_found": site.ask("/api/nothing", headers=owner),
    }

    assert {code: code_of(answer) for code, answer in refused.items()} == {c: c for c in refused}
    assert [answer.status for answer in refused.values()] == [421, 403, 413, 401, 404]
