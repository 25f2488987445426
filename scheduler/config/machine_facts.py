"""Facts about the submitting machine and the time, for prompts of normal agents."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import PurePath

_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
_SYSTEMS = {"darwin": "macos", "win32": "windows"}
_LOCALE = re.compile(r"([a-z]{2,3})(?:_([A-Z]{2}|[0-9]{3}))?(?:[.@].*)?")


def machine_facts(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the values of `{{__os__}}` and the like by name, except `__cwd__` and `__tools__`."""
    environment = os.environ if environment is None else environment
    system = _SYSTEMS.get(sys.platform, sys.platform)
    machine = platform.machine().lower()
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return {
        "__os__": system,
        "__os_family__": "windows" if system == "windows" else "unix",
        "__arch__": _ARCHITECTURES.get(machine, machine),
        "__os_distro__": _distribution(system),
        "__shell__": PurePath(environment.get("SHELL", "")).name,
        "__locale__": _language_tag(environment),
        "__now__": now.replace("+00:00", "Z"),
    }


def _distribution(system: str) -> str:
    if system != "linux":
        return f"{platform.system()} {platform.release()}"
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return "Linux (linux)"
    return f"{release.get('PRETTY_NAME', 'Linux')} (linux)"


def _language_tag(environment: Mapping[str, str]) -> str:
    """Return the BCP 47 tag of the user's locale; empty for none, and for `C` and `POSIX`."""
    names = (environment.get(name, "") for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    found = _LOCALE.fullmatch(next((name for name in names if name), ""))
    return "-".join(part for part in found.groups() if part) if found else ""
