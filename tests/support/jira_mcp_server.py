"""An MCP server on stdio that simulates a small Jira: one project, and the issues created."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

server = MCPServer("atlassian", log_level="CRITICAL")
issues = {"SHOP-1": "Export", "SHOP-2": "Filters"}


@server.tool()
def list_projects() -> list[str]:
    """List the projects that the user can see."""
    return ["SHOP"]


@server.tool()
def list_issue_types(project: str) -> list[str]:
    """List the types of issues of a project."""
    return ["Bug", "Epic", "Story"]


@server.tool()
def search_issues(jql: str) -> list[str]:
    """Search issues with JQL."""
    return [f"{key} {title}" for key, title in issues.items()]


@server.tool()
def who_am_i() -> str:
    """The account of the user."""
    return "ann"


@server.tool()
def create_issue(project: str, type: str, title: str, assignee: str | None = None) -> str:
    """Create an issue."""
    key = f"{project}-{len(issues) + 1}"
    issues[key] = title
    return f"{key} for {assignee}"


if __name__ == "__main__":
    server.run()
