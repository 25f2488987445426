"""How TypeScript runs, in tools and in script nodes: by `npx tsx`, if this worker has both."""

from __future__ import annotations

import shutil

COMMAND = ("npx", "tsx")
# Nothing is installed while a call waits, by whoever happens to call first.
ENVIRONMENT = {"npm_config_yes": "false", "npm_config_offline": "true"}
NO_NODE = "'npx' is not on the PATH of this worker; TypeScript needs node and tsx"
NO_TSX = "npx found no tsx; install it on this worker: npm install --global tsx"


def has_node(path: str | None) -> bool:
    """Whether `npx` is to be found there."""
    return shutil.which(COMMAND[0], path=path) is not None


def is_no_tsx(stderr: str) -> bool:
    """Whether it was npx that failed, by what it said, and not the program that it was to run."""
    return stderr.lstrip().lower().startswith("npm err")
