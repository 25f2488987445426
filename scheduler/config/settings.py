"""Settings of the engine: read once per process, from flags, environment and config.yaml.

Precedence: flag > `SLEIPNIR_<NAME>` > `<config dir>/config.yaml` > default.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from sleipnir.graphs.files import read_text, reason
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.config.directories import config_dir
from sleipnir.scheduler.config.models import ModelSettings
from sleipnir.scheduler.config.secrets import Secrets
from sleipnir.scheduler.errors import SecretsMissing, SecretsUnusable, SettingInvalid
from sleipnir.scheduler.schema_checks import DEFAULT_LIMIT_S

with lazy_imports():
    import yaml

    from sleipnir.graphs.document import shape

KIB = 1024
MIB = 1024 * KIB

PREFIX = "SLEIPNIR_"


def _split(value: Any) -> Any:
    return [part for part in value.split(":") if part] if isinstance(value, str) else value


def _from_json(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value  # and no mapping, as will be said


PathList = Annotated[tuple[str, ...], BeforeValidator(_split)]


def _split_names(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return [name for part in value.split(",") if (name := part.strip())]


NameList = Annotated[tuple[str, ...], BeforeValidator(_split_names)]
Models = Annotated[ModelSettings, BeforeValidator(_from_json)]
# For each name a list of names, or one comma-separated text.
Aliases = Annotated[dict[str, str | list[str]], BeforeValidator(_from_json)]


class Settings(BaseModel):
    """Every setting with its unit and default."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    redis_url: str | None = Field(
        None, description="Redis that holds all runs, or its sentinels; unset: the embedded engine"
    )
    broker_url: str | None = Field(
        None, description="Celery broker for wake-ups; unset: the same Redis"
    )
    agents_dir: PathList = Field((), description="directories to look for agents in")
    model: str | None = Field(None, description="default model: `provider:model`, or an alias")
    models: Models = Field(
        ModelSettings(),
        description="aliases, keys, limits, prices and budgets of models; JSON in the environment",
    )

    machine: str | None = Field(
        None, description="name of this machine among those that share a Redis; unset: host name"
    )
    workers: int = Field(
        0, ge=0, description="worker processes of the embedded engine; 0: automatic"
    )
    # Threads mostly wait: for scripts, for models. They are cheap; the scripts' memory is not.
    concurrency: int = Field(32, ge=1, description="nodes one worker process executes at once")
    drain_s: float = Field(
        20.0, gt=0, description="time a stopping worker gives its nodes before it requeues them"
    )

    # Long enough for a stalled machine to come back, short enough not to be noticed by people.
    lease_s: float = Field(
        15.0, ge=1, description="time without a heartbeat until a visit is redelivered"
    )
    # A loss proves nothing: what takes workers down is found out in a process of its own.
    max_deliveries: int = Field(
        20, ge=1, description="workers one visit may lose for unknown reasons before its run fails"
    )
    retry_base_s: float = Field(
        0.5, gt=0, description="first pause before a model call is repeated"
    )
    retry_max_s: float = Field(30.0, gt=0, description="longest such pause")
    model_stall_s: float = Field(
        300.0, gt=0, description="silence in the middle of a streamed reply that ends its call"
    )
    max_agent_depth: int = Field(3, ge=0, description="deepest nesting of child runs; a root is 0")
    retention_s: float = Field(7 * 86400.0, gt=0, description="how long finished runs are kept")

    state_limit_bytes: int = Field(16 * MIB, ge=1, description="largest state of a run")
    value_limit_bytes: int = Field(8 * MIB, ge=1, description="largest single value of a state")
    bundle_limit_bytes: int = Field(64 * MIB, ge=1, description="largest packed agent directory")
    map_items_limit: int = Field(100_000, ge=1, description="most items of one map")
    batch_lines_limit: int = Field(
        2_000_000, ge=1, description="most lines of one input of `batch`, blank ones too"
    )
    output_limit_bytes: int = Field(
        8 * MIB, ge=1, description="most output of one script, per stream"
    )
    # What streaming puts around each piece of a reply may take eight times as much.
    reply_limit_bytes: int = Field(
        8 * MIB, ge=1, description="largest reply of a model, given up while it comes"
    )
    conversation_limit_bytes: int = Field(
        32 * MIB, ge=1, description="replies and results that one attempt of an llm node collects"
    )
    calls_limit: int = Field(
        128, ge=1, description="most calls of one reply of a model; others are refused"
    )
    call_threads: int = Field(
        16, ge=1, description="calls to MCP servers of one reply that run side by side"
    )
    # Below this the head and tail of an entry would say nothing any more.
    log_limit_bytes: int = Field(
        16 * MIB, ge=64 * KIB, description="most output of one run kept for `sleipnir logs`"
    )
    history_limit_bytes: int = Field(
        32 * MIB, ge=64 * KIB, description="history of a run, beyond which its middle is folded"
    )
    narration_limit: int = Field(2_000, ge=10, description="events kept of one run's narration")
    # Each event has its share of it, so one may take 8 KiB.
    narration_limit_bytes: int = Field(
        16 * MIB, ge=64 * KIB, description="most that the events of one run's narration take"
    )

    monitor_hosts: NameList = Field(
        (), description="host names that the monitor accepts; loopback names always work"
    )

    mapping_tools: dict[str, str | list[str]] = Field(
        {}, description="aliases for several global tools, in `config.yaml` only"
    )
    visible_tools: NameList | None = Field(
        None, description="the only global tools that agents may use; unset: all"
    )
    mcp_server_support: bool = Field(True, description="agents may use MCP servers")
    mcp_timeout: float = Field(
        120.0, gt=0, description="seconds for one call of an MCP server, its start included"
    )
    mapping_mcp_servers: Aliases = Field(
        {}, description="names that stand for several MCP servers; JSON in the environment"
    )
    secrets_file: str | None = Field(
        None, description="file of secrets; unset: `secrets.yaml` in the config directory"
    )

    tool_env: PathList = Field(
        (), description="more environment variables that scripts and tools may see"
    )
    check_timeout_s: float = Field(
        DEFAULT_LIMIT_S,
        gt=0,
        description="processor time to check one value against an author's schema or pattern",
    )
    tool_timeout: float = Field(
        1800.0, ge=0, description="seconds for one call of a tool; 0: no limit"
    )
    program_memory_mb: int | None = Field(
        None, ge=1, description="memory that one process of a script or tool may take; unset: any"
    )
    program_cpu_s: int | None = Field(
        None, ge=1, description="CPU seconds that one such process may take; unset: any"
    )
    tool_root: str | None = Field(
        None, description="directory that the shipped file tools may not leave; unset: any"
    )
    allow_private_addresses: bool = Field(
        False, description="tools and knowledge bases may fetch from private and local addresses"
    )
    auto_confirm: bool = Field(
        True,
        description="guarded tools of graphs run unasked; false: a person is asked each time",
    )
    rag_embedding_model: str | None = Field(
        None,
        description="embedding model of knowledge bases; `none`: keywords only, "
        "`local`: that of the extra",
    )
    rag_chunk_size: int | None = Field(
        None, ge=1, description="longest chunk of a document in a knowledge base, characters"
    )
    rag_chunk_overlap: int | None = Field(
        None, ge=0, description="how much of a chunk the next one may repeat, characters"
    )
    embeddings_retry_limit: int = Field(
        2, ge=1, description="attempts to embed one batch of texts, in all"
    )
    rag_top_k: int = Field(5, ge=1, description="chunks that a search in a knowledge base gives")
    rag_document_max_bytes: int = Field(
        64 * MIB, ge=1, description="largest document of a knowledge base"
    )
    kb_max_bytes: int = Field(
        512 * MIB, ge=1, description="largest packed knowledge base, as Redis keeps it"
    )
    kb_cache_bytes: int = Field(
        4096 * MIB, ge=1, description="most that knowledge bases take on a worker's disk"
    )
    rag_absolute_paths: bool = Field(
        False, description="knowledge bases may read documents outside their agent's directory"
    )
    allow_unsafe_redis: bool = Field(
        False, description="accept a Redis that evicts keys, at the risk of losing runs"
    )

    @property
    def machine_name(self) -> str:
        """What runs that need this machine's files call it."""
        return self.machine or gethostname()

    @property
    def secrets(self) -> Secrets:
        """What `{{NAME}}`s stand for on this machine."""
        return _secrets(self.secrets_file)


def _secrets(file: str | None) -> Secrets:
    return Secrets(Path(file).expanduser() if file else config_dir() / "secrets.yaml")


@dataclass(frozen=True)
class LoadedSettings:
    """Settings together with where each value came from."""

    values: Settings
    origins: Mapping[str, str]


def load_settings(flags: Mapping[str, Any] | None = None) -> LoadedSettings:
    """Merge all sources; flags whose value is None count as not given.

    Raises:
        SettingInvalid: naming the setting, its source and what is wrong with it.
    """
    values: dict[str, Any] = {}
    origins = dict.fromkeys(Settings.model_fields, "default")
    from_environment = _from_environment()
    for source, found in (
        (str(config_dir() / "config.yaml"), _from_config(from_environment.get("secrets_file"))),
        ("environment", from_environment),
        ("flag", {k: v for k, v in (flags or {}).items() if v is not None}),
    ):
        values.update(found)
        origins.update(dict.fromkeys(found, source))
    try:
        return LoadedSettings(Settings.model_validate(values), origins)
    except ValidationError as error:
        raise SettingInvalid(_complaint(error.errors()[0], origins)) from error


def _complaint(error: ErrorDetails, origins: Mapping[str, str]) -> str:
    """The setting, where it is from, and what is wrong with it."""
    name, *path = map(str, error["loc"])
    place = f"{PREFIX}{name.upper()}" if origins.get(name) == "environment" else name
    # Pydantic says of a mapping's key that it is one; what the key is it says before.
    place = ".".join([place, *(step for step in path if step != "[key]")])
    where = f"{place} (from {origins.get(name, 'settings')})"
    match error["type"]:
        case "extra_forbidden":
            return f"{where}: unknown setting"
        case "value_error":
            return f"{where}: {error['ctx']['error']}"
        case _:
            return f"{where}: expected {shape.expected_by(error)}, got {error['input']!r}"


def _from_environment() -> dict[str, Any]:
    return {
        name: value
        for name in Settings.model_fields
        if (value := os.environ.get(PREFIX + name.upper()))
    }


def _from_config(secrets_file: str | None) -> dict[str, Any]:
    """The values of `config.yaml`, with secrets put in."""
    file = config_dir() / "config.yaml"
    found = _from_file(file)
    secrets = _secrets(secrets_file or str(found.get("secrets_file") or ""))
    try:
        return secrets.resolve(found)
    except (SecretsMissing, SecretsUnusable) as error:
        raise SettingInvalid(f"{file}: {error}") from error


def _from_file(file: Path) -> dict[str, Any]:
    try:
        text = read_text(file, MIB)
        found = yaml.safe_load(text)
    except FileNotFoundError:
        return {}
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SettingInvalid(f"cannot read {file}: line {line}: {error.problem}") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingInvalid(f"cannot read {file}: {reason(error)}") from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise SettingInvalid(f"{file}: expected a mapping of settings")
    for name in found:
        if name not in Settings.model_fields:
            near = difflib.get_close_matches(str(name), Settings.model_fields, 1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise SettingInvalid(f"{file}: unknown setting '{name}'{hint}")
    return found
