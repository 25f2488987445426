"""`demo` and `jira-helper`, their models scripted."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from sleipnir.scheduler.config.directories import config_dir
from tests.support.conversations import converses
from tests.support.engine import Engine
from tests.support.mcp import ROOT
from tests.support.model_server import ModelServer, calls, says
from tests.support.shipped import Shipped, told
from tests.support.web_server import Page, WebServer


def test_the_demo_shows_what_every_special_variable_holds(
    engine: Engine, server: ModelServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shipped = Shipped(engine, allow_private_addresses=True)
    message = "Which variables are there?"
    converses(server, message, calls(("get_public_ip", {})), says("Hello Ann."))

    with WebServer({"/": Page("203.0.113.7\n", "text/plain")}) as web:
        monkeypatch.setenv("PUBLIC_IP_URL", web.url("/"))
        run = shipped.finish("demo", message, variables={"username": "Ann"}, workdir=str(tmp_path))

    assert (run.status, run.output) == ("succeeded", "Hello Ann."), run.failure
    system, *others = server.requests[0].messages
    assert "You talk to Ann" in system["content"]
    assert f"- directory: {tmp_path}\n" in system["content"]
    assert "1. get_current_time: " in system["content"]
    assert "{{__" not in system["content"]
    # Its own page, by the words of the message.
    assert "`username` has no default" in json.dumps(others)
    assert told(server, message) == ["203.0.113.7"]


def test_the_demo_is_not_submitted_without_a_name(engine: Engine) -> None:
    with pytest.raises(Exception, match="username"):
        Shipped(engine).submit("demo", "Who am I?")


def invoke(tool: str, **arguments: str) -> tuple[str, dict[str, object]]:
    return "mcp_invoke_atlassian", {"tool": tool, "arguments": arguments}


def test_an_issue_is_created_after_a_person_has_chosen_and_agreed(
    engine: Engine, server: ModelServer
) -> None:
    program = {
        "command": sys.executable,
        "args": ["-m", "tests.support.jira_mcp_server"],
        "env": {"PYTHONPATH": str(ROOT)},
    }
    (config_dir() / "functions").mkdir(parents=True)
    (config_dir() / "functions" / "mcp.json").write_text(
        json.dumps({"mcpServers": {"atlassian": program}})
    )
    shipped = Shipped(engine)
    request = "Create a bug: the export is empty."
    issue = {"project": "SHOP", "type": "Bug", "title": "Export is empty", "assignee": "ann"}
    converses(
        server,
        request,
        calls(
            ("mcp_search_atlassian", {"query": "create an issue"}),
            ("mcp_describe_atlassian", {"tool": "create_issue"}),
            invoke("list_projects"),
        ),
        calls(("user__ask", {"question": "Which project?", "options": ["SHOP"]})),
        calls(
            invoke("list_issue_types", project="SHOP"),
            invoke("search_issues", jql="project = SHOP AND text ~ export"),
            invoke("who_am_i"),
        ),
        calls(("user__confirm", {"question": "Create SHOP bug: Export is empty?"})),
        calls(invoke("create_issue", **issue)),
        says("Created SHOP-3: Export is empty"),
    )

    run_id = shipped.submit("jira-helper", request)
    try:
        shipped.go_on(run_id)
        assert shipped.question() == "Which project?"
        shipped.answer(run_id, "SHOP")
        run = shipped.answer(run_id, "yes")
    finally:
        engine.services.tools.mcp.close()

    assert (run.status, run.output) == ("succeeded", "Created SHOP-3: Export is empty")
    told_all = json.dumps(told(server, request))
    assert "SHOP-1 Export" in told_all
    assert "SHOP-3 for ann" in told_all
