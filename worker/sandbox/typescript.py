"""Runs TypeScript, in tools and in script nodes, by `npx tsx` if this worker has both."""

from __future__ import annotations

import shutil

COMMAND = ("npx", "tsx")
# Never install anything while a call waits.
ENVIRONMENT = {"npm_config_yes": "false", "npm_config_offline": "true"}
NO_NODE = "'npx' is not on the PATH of this worker; TypeScript needs node and tsx"
NO_TSX = "npx found no tsx; install it on this worker: npm install --global tsx"


def has_node(path: str | None) -> bool:
    """Return whether `npx` is on the given PATH."""
    return shutil.which(COMMAND[0], path=path) is not None


def is_no_tsx(stderr: str) -> bool:
    """Return whether, judging by stderr, npx itself failed and not the program it was to run."""
    return stderr.lstrip().lower().startswith("npm err")
