"""What is wrong with the Compose file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from sleipnir.scheduler.config.settings import FIELDS, PREFIX
from tests.support.tools import run_tool

_TOOL = "check-jsonschema==0.39.0"
_OF_REDIS = (
    "--appendonly yes",
    "--appendfsync everysec",
    "--maxmemory-policy noeviction",
    "--maxmemory ",
    "--requirepass ",
    "--stream-node-max-bytes 1024",
)
_TRUSTED = ("scheduler", "monitor")  # agents could read the keys and the archive of others
_OF_TRUSTED = {"./keys:/keys:ro", "./archive:/archive"}
_OTHER_VARIABLES = {"SLEIPNIR_DATA_DIR", "SLEIPNIR_MONITOR_AUTH"}


def complaints(deploy: Path) -> Iterator[str]:
    """Yield what is wrong, service by service."""
    file = deploy / "compose.yaml"
    done = run_tool(_TOOL, "check-jsonschema", "--builtin-schema", "vendor.compose-spec", str(file))
    if done.returncode != 0:
        yield f"it is no Compose file: {done.stdout}"
    text = file.read_text()
    used = set(re.findall(r"\$\{(\w+)", text))
    set_in_example = set(re.findall(r"^(\w+)=", (deploy / "compose.env.example").read_text(), re.M))
    if used != set_in_example:
        yield f"compose.env.example has other variables: {sorted(used ^ set_in_example)}"
    services: dict[str, Any] = yaml.safe_load(text)["services"]
    for name, service in services.items():
        for complaint in _of_service(name, service):
            yield f"{name}: {complaint}"
    for option in _OF_REDIS:
        if option not in services["redis"]["command"]:
            yield f"redis: its command lacks {option}"
    if services["scheduler"]["deploy"]["replicas"] != 2:
        yield "scheduler: there are not two"


def _of_service(name: str, service: Mapping[str, Any]) -> Iterator[str]:
    wanted = {
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
    }
    yield from (
        f"{key} is not {value}" for key, value in wanted.items() if service.get(key) != value
    )
    yield from (f"it has no {key}" for key in ("mem_limit", "pids_limit") if key not in service)
    if "/tmp" not in service.get("tmpfs", []):
        yield "it cannot write to /tmp"
    if "healthcheck" not in service:
        yield "nothing checks its health"
    environment = service.get("environment", {})
    drain_s = float(environment.get("SLEIPNIR_DRAIN_S", 20))
    if service.get("stop_grace_period") != f"{drain_s + 20:g}s":
        yield "its stop_grace_period is not drain_s and 20 s"
    if service.get("image") != "sleipnir":
        return
    if environment.get("SLEIPNIR_PIN") != "never":
        yield "its runs wait for a container that is gone"
    if "data:/var/lib/sleipnir" not in service.get("volumes", []):
        yield "its data directory cannot be written"
    yield from _of_trust(service["volumes"], environment, is_trusted=name in _TRUSTED)
    known = {PREFIX + field.upper() for field in FIELDS} | _OTHER_VARIABLES
    for variable in environment.keys() - known:
        if variable.startswith(PREFIX):
            yield f"there is no setting {variable}"


def _of_trust(
    volumes: list[str], environment: Mapping[str, Any], *, is_trusted: bool
) -> Iterator[str]:
    if {*volumes} & _OF_TRUSTED != (_OF_TRUSTED if is_trusted else set()):
        yield "it has keys and the archive, and should not, or the other way round"
    for variable in ("SLEIPNIR_HOOK_KEY_FILE", "SLEIPNIR_ARCHIVE_KEY_FILE"):
        if (variable in environment) != is_trusted:
            yield f"it has {variable}, and should not, or the other way round"
    if "SLEIPNIR_ARCHIVE" not in environment:
        yield "it does not know where runs are archived"
