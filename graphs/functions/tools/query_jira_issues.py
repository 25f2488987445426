"""Searches issues in Jira."""

# @meta require-tools jira

import subprocess

from sleipnir.programs import argument

# What the program says, and ends with a failure, where nothing matches.
NOTHING = "no result found"


def run(jql_query: str) -> str:
    """List the Jira issues that a query finds, one a line.

    Args:
        jql_query: The query in JQL, such as `project = OPS AND status = Open`.
    """
    ended = subprocess.run(
        ["jira", "issue", "list", "--plain", argument(f"--jql={jql_query}")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    said = ended.stderr.decode("utf-8", errors="replace")
    if ended.returncode == 0:
        return ended.stdout.decode("utf-8", errors="replace")
    if NOTHING in said.lower():
        return f"No issue matches {jql_query}"
    raise SystemExit(f"jira ended with exit status {ended.returncode}: {said.strip()}")
