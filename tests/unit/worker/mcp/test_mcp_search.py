"""Finding tools by what they are for."""

from __future__ import annotations

import pytest

from sleipnir.worker.mcp.search import search
from sleipnir.worker.mcp.tool import McpTool

TOOLS = [
    McpTool("create_issue", "Open a new issue in a repository.", {}),
    McpTool("listPullRequests", "Pull requests of a repository, newest first.", {}),
    McpTool("search_code", "Search the code of all repositories for a text.", {}),
    McpTool("get_file", "", {}),
]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("open an issue", "create_issue"),
        ("ISSUE", "create_issue"),
        ("pull requests", "listPullRequests"),
        ("find text in code", "search_code"),
        ("file", "get_file"),
    ],
)
def test_the_tool_that_fits_best_comes_first(query: str, first: str) -> None:
    assert search(TOOLS, "hub", query, 8)[0].name == first


def test_no_more_than_asked_for_and_none_that_does_not_fit() -> None:
    assert len(search(TOOLS, "hub", "repository", 1)) == 1
    assert [tool.name for tool in search(TOOLS, "hub", "issue", 8)] == ["create_issue"]


def test_without_any_fit_the_list_is_shown_from_its_beginning() -> None:
    assert search(TOOLS, "hub", "tea", 2) == TOOLS[:2]
    assert search([], "hub", "tea", 2) == []


def test_the_servers_name_fits_all_of_its_tools() -> None:
    assert len(search(TOOLS, "hub", "hub", 8)) == len(TOOLS)
