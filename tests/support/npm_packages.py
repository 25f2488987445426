"""npm packages for tests, a real `tsx` and axe, kept in the checkout between runs."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".npm"
PINNED = Path(__file__).with_name("npm")
FILES = ("package.json", "package-lock.json")
NO_NODE = "there is no node with npm and npx here"
_INSTALL = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
_INSTALL_TIMEOUT_S = 100


class NoPackages(Exception):
    """Why they are unavailable, in one line."""


def has_node() -> bool:
    return all(shutil.which(program) for program in ("node", "npm", "npx"))


def node_modules() -> Path:
    """Return where they are installed; install them by the lock file, hashes checked, if needed.

    Raises:
        NoPackages: npm cannot install them.
    """
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        wanted = sha256(b"".join((PINNED / name).read_bytes() for name in FILES)).hexdigest()
        mark = CACHE / "installed"
        if not mark.exists() or mark.read_text() != wanted:
            _install()
            mark.write_text(wanted)
    return CACHE / "node_modules"


def _install() -> None:
    for name in FILES:
        shutil.copy(PINNED / name, CACHE / name)
    environment = {**os.environ, "npm_config_cache": str(CACHE / "cache")}
    try:
        subprocess.run(
            _INSTALL,
            cwd=CACHE,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_INSTALL_TIMEOUT_S,
            check=True,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        said = str(error.stderr or error).strip().splitlines()
        raise NoPackages(f"npm does not install what they need: {said[-1:]}") from error
