"""The engine's settings: read once per process, from flags, environment and config.yaml.

Precedence: flag > `SLEIPNIR_<NAME>` > `<config dir>/config.yaml` > default.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import fields
from pathlib import Path
from socket import gethostname
from typing import Any, Literal, TypeAlias

from sleipnir.graphs.document.queues import DEFAULT_QUEUE
from sleipnir.graphs.files import read_text, reason
from sleipnir.graphs.limits import MAX_BRANCHES
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.config import forms
from sleipnir.scheduler.config.directories import config_dir
from sleipnir.scheduler.config.models import ModelSettings
from sleipnir.scheduler.config.notify import NotifySettings
from sleipnir.scheduler.config.secrets import Secrets
from sleipnir.scheduler.config.serving import ServeSettings
from sleipnir.scheduler.config.user import user_name
from sleipnir.scheduler.errors import SecretsMissing, SecretsUnusable, SettingInvalid, WrongValue
from sleipnir.scheduler.schema_checks import DEFAULT_LIMIT_S

with lazy_imports():
    import yaml

    from sleipnir.graphs import field_types
    from sleipnir.scheduler.config import checking
    from sleipnir.scheduler.config.secret_files import redis_url_file

KIB = 1024
MIB = 1024 * KIB

PREFIX = "SLEIPNIR_"


Paths: TypeAlias = tuple[str, ...]
Names: TypeAlias = tuple[str, ...]
# Name → list of names, or one comma-separated text.
Aliases: TypeAlias = dict[str, str | list[str]]
Commands: TypeAlias = dict[str, str]
# Role → patterns of names.
Roles: TypeAlias = dict[Literal["read", "answer", "operate"], list[str]]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings with units and defaults; created by `load_settings`, which validates them."""

    redis_url: str | None = forms.text(
        None, description="Redis that holds all runs, or its sentinels; unset: the embedded engine"
    )
    redis_url_file: str | None = forms.text(
        None,
        description="file with that URL, in place of redis_url; user and password are read again "
        "for each new connection",
    )
    broker_url: str | None = forms.text(
        None, description="Celery broker for wake-ups; unset: the same Redis"
    )
    agents_dir: Paths = forms.paths((), description="directories to look for agents in")
    model: str | None = forms.text(None, description="default model: `provider:model`, or an alias")
    temperature: float | None = forms.decimal(
        None,
        ge=0,
        description="temperature of normal agents that set neither a model nor a temperature",
    )
    top_p: float | None = forms.decimal(
        None, ge=0, description="top_p of normal agents that set neither a model nor a top_p"
    )
    agent_session: str | None = forms.text(
        None, description="session of normal agents that set none; `temp`: one that is not kept"
    )
    compression_threshold: int = forms.whole(
        4_000, ge=0, description="tokens above which sessions are compressed; 0: never"
    )
    agent_max_turns: int = forms.whole(
        0, ge=0, description="turns after which a run of a normal agent fails; 0: no limit"
    )
    agent_max_stuck_turns: int = forms.whole(
        25,
        ge=0,
        description="turns in a row without a call that succeeds with a new result after which a "
        "run of a normal agent fails; 0: no limit",
    )
    models: ModelSettings = forms.mapping(
        ModelSettings(),
        description="aliases, keys, limits, prices and budgets of models; JSON in the environment",
    )

    user: str | None = forms.text(
        None,
        description="who you are among those that share a Redis: in the audit log, and for "
        "sessions and chats, which are yours alone; unset: login name@machine",
    )
    machine: str | None = forms.text(
        None, description="name of this machine among those that share a Redis; unset: host name"
    )
    workers: int = forms.whole(
        0, ge=0, le=1024, description="worker processes of the embedded engine; 0: automatic"
    )
    queues: tuple[field_types.QueueName, ...] = forms.queues(
        (DEFAULT_QUEUE,),
        description="queues whose nodes a worker executes, and no others; after what goes first "
        "in each queue, their order counts",
    )
    # Threads are cheap: they mostly wait for scripts and models. The scripts' memory is not.
    concurrency: int = forms.whole(
        32, ge=1, le=4096, description="nodes one worker process executes at once"
    )
    max_visits: int = forms.whole(
        0,
        ge=0,
        description="visits after which a process of `sleipnir worker` is replaced; 0: never",
    )
    max_memory_mb: int = forms.whole(
        0,
        ge=0,
        description="memory in MiB beyond which a process of `sleipnir worker` is replaced; "
        "0: never",
    )
    drain_s: float = forms.decimal(
        20.0, gt=0, description="time a stopping worker gives its nodes before it requeues them"
    )

    log_format: Literal["text", "json"] = forms.choice(
        "text", description="lines of the logs of processes: text, or one JSON object each"
    )
    log_level: Literal["debug", "info", "warning", "error"] = forms.choice(
        "info",
        description="least level of these lines; the monitor logs no infos unless it is debug",
    )
    health_address: str | None = forms.text(
        None,
        description="HOST:PORT at which worker, scheduler and monitor answer health checks; unset: "
        "none",
    )
    pin: Literal["auto", "never"] = forms.choice(
        "auto",
        description="whether runs that use files of the submitting machine stay on it if it has a "
        "worker; never: for containers, whose names do not outlive them",
    )
    # Long enough for a stalled machine to recover, short enough for people not to notice.
    lease_s: float = forms.decimal(
        15.0, ge=1, description="time without a heartbeat until a visit is redelivered"
    )
    # A lost worker proves nothing: visits that kill workers are found by isolated execution.
    max_deliveries: int = forms.whole(
        20, ge=1, description="workers one visit may lose for unknown reasons before its run fails"
    )
    retry_base_s: float = forms.decimal(
        0.5, gt=0, description="first pause before a model call is repeated"
    )
    retry_max_s: float = forms.decimal(30.0, gt=0, description="longest such pause")
    model_stall_s: float = forms.decimal(
        300.0, gt=0, description="silence in a streamed reply after which the call is given up"
    )
    max_agent_depth: int = forms.whole(
        3, ge=0, description="deepest nesting of child runs; a root is 0"
    )
    retention_s: float = forms.decimal(
        7 * 86400.0, gt=0, description="how long finished runs are kept"
    )
    spend_retention_s: float = forms.decimal(
        400 * 86400.0, gt=0, description="how long is kept what was spent on a day"
    )

    state_limit_bytes: int = forms.whole(16 * MIB, ge=1, description="largest state of a run")
    value_limit_bytes: int = forms.whole(
        8 * MIB, ge=1, description="largest single value of a state"
    )
    bundle_limit_bytes: int = forms.whole(
        64 * MIB, ge=1, description="largest packed agent directory"
    )
    spawn_bundle_limit: int = forms.whole(
        256, ge=1, description="agents packed with a run because its models may start them"
    )
    spawn_bundle_limit_bytes: int = forms.whole(
        64 * MIB, ge=1, description="total size of those agents"
    )
    max_branches: int = forms.whole(
        MAX_BRANCHES, ge=1, description="maximum nodes of one step, and targets of one `next`"
    )
    map_items_limit: int = forms.whole(100_000, ge=1, description="maximum items of one map")
    batch_lines_limit: int = forms.whole(
        2_000_000, ge=1, description="maximum lines of one `batch` input, including blank ones"
    )
    output_limit_bytes: int = forms.whole(
        8 * MIB, ge=1, description="maximum output of one script, per stream"
    )
    # The stream's framing may take eight times as much.
    reply_limit_bytes: int = forms.whole(
        8 * MIB, ge=1, description="largest model reply; a larger one is abandoned while it arrives"
    )
    conversation_limit_bytes: int = forms.whole(
        32 * MIB,
        ge=1,
        description="replies and tool results that one attempt of an llm node may collect",
    )
    calls_limit: int = forms.whole(
        128, ge=1, description="maximum tool calls in one model reply; the others are refused"
    )
    attach_count_limit: int = forms.whole(
        20, ge=1, description="images and PDFs that a node may attach to its prompt"
    )
    attach_file_limit_bytes: int = forms.whole(
        20 * MIB, ge=1, description="largest file among them"
    )
    attach_request_limit_bytes: int = forms.whole(
        32 * MIB, ge=1, description="maximum size of all of them together"
    )
    attach_batch_limit_bytes: int = forms.whole(
        4096 * MIB, ge=1, description="maximum size of the files that are stored with one batch"
    )
    call_threads: int = forms.whole(
        16, ge=1, description="MCP calls of one reply that run in parallel"
    )
    # Below this, the head and tail of an entry would be too short to be useful.
    log_limit_bytes: int = forms.whole(
        16 * MIB, ge=64 * KIB, description="maximum output kept per run for `sleipnir logs`"
    )
    transcripts: Literal["all", "failed", "none"] = forms.choice(
        "all",
        description="visits whose model requests and replies are kept",
    )
    transcript_limit_bytes: int = forms.whole(
        MIB,
        ge=64 * KIB,
        description="maximum transcripts kept per run, the newest; as much again for failed ones",
    )
    history_limit_bytes: int = forms.whole(
        32 * MIB,
        ge=64 * KIB,
        description="largest history of a run; beyond it, the middle is folded",
    )
    narration_limit: int = forms.whole(2_000, ge=10, description="narration events kept per run")
    # Each event has an equal share, so one may take 8 KiB.
    narration_limit_bytes: int = forms.whole(
        16 * MIB, ge=64 * KIB, description="maximum size of those events"
    )

    monitor_hosts: Names = forms.names(
        (), description="host names that the monitor accepts; loopback names always work"
    )
    monitor_proxies: Names = forms.names(
        (),
        description="addresses and networks of proxies whose forwarded headers the monitor trusts",
    )
    monitor_user_header: str | None = forms.text(
        None, description="header in which those proxies name the user, such as X-Remote-User"
    )
    monitor_roles: Roles = forms.mapping(
        {},
        description="regular expressions of user names or e-mail addresses for `read`, `answer` "
        "and `operate`; JSON in the environment",
    )
    serve: ServeSettings = forms.mapping(
        ServeSettings(),
        description="agents that the monitor serves to programs: patterns of their names as "
        "`agents`, and `mcp: true`, `openai: true` or both; JSON in the environment",
    )
    monitor_public_url: str | None = forms.text(
        None, description="URL of the monitor as people reach it, for links to it"
    )
    answer_links: bool = forms.switch(
        True, description="people without an account may answer by links that are made for them"
    )

    notify: tuple[NotifySettings, ...] = forms.mapping(
        (),
        description="whom to tell of events by mail, chat and the like: `url` as of Apprise, "
        "`events` and `filter` of each; JSON in the environment",
    )

    # Clients give a call up after a minute.
    mcp_serve_wait_s: float = forms.decimal(
        50.0,
        gt=0,
        description="time that a call of a served agent by MCP waits for its run before it returns "
        "the run's id",
    )

    mapping_tools: Aliases = forms.mapping(
        {}, description="aliases for several global tools; JSON in the environment"
    )
    visible_tools: Names | None = forms.names(
        None, description="the only global tools that agents may use; unset: all"
    )
    skills_enabled: bool = forms.switch(
        False, description="models may load skills where agents do not say whether and which"
    )
    mcp_server_support: bool = forms.switch(True, description="agents may use MCP servers")
    mcp_timeout: float = forms.decimal(
        120.0, gt=0, description="seconds for one MCP call, including the start of the server"
    )
    mapping_mcp_servers: Aliases = forms.mapping(
        {}, description="aliases for several MCP servers; JSON in the environment"
    )
    mcp_tools: field_types.ToolFilter = forms.mapping(
        {},
        description="patterns of the only tools that agents may use, by MCP server or alias; JSON "
        "in the environment",
    )
    secrets_file: str | None = forms.text(
        None, description="file of secrets; unset: `secrets.yaml` in the config directory"
    )
    hook_key_file: str | None = forms.text(
        None,
        description="file with the key that encrypts secrets of webhooks in Redis; unset: there "
        "are none",
    )

    tool_env: Paths = forms.paths(
        (), description="more environment variables that scripts and tools may see"
    )
    check_timeout_s: float = forms.decimal(
        DEFAULT_LIMIT_S,
        gt=0,
        description="processor time to check one value against an author's schema or pattern",
    )
    tool_timeout: float = forms.decimal(
        1800.0, ge=0, description="seconds for one call of a tool; 0: no limit"
    )
    program_memory_mb: int | None = forms.whole(
        None, ge=1, description="memory limit of one script or tool process; unset: none"
    )
    program_cpu_s: int | None = forms.whole(
        None, ge=1, description="CPU time limit of one such process, in seconds; unset: none"
    )
    tool_root: str | None = forms.text(
        None, description="directory that the shipped file tools may not leave; unset: any"
    )
    allow_private_addresses: bool = forms.switch(
        False, description="tools and knowledge bases may fetch from private and local addresses"
    )
    auto_confirm: bool = forms.switch(
        True,
        description="guarded tools of graphs run without confirmation; false: as if every run "
        "had `--ask`",
    )
    rag_embedding_model: str | None = forms.text(
        None,
        description="embedding model of knowledge bases; `none`: keywords only, "
        "`local`: the model of the extra",
    )
    rag_chunk_size: int | None = forms.whole(
        None, ge=1, description="longest chunk of a document in a knowledge base, characters"
    )
    rag_chunk_overlap: int | None = forms.whole(
        None, ge=0, description="overlap of consecutive chunks, characters"
    )
    embeddings_retry_limit: int = forms.whole(
        2, ge=1, description="total attempts to embed one batch of texts"
    )
    rag_top_k: int = forms.whole(5, ge=1, description="chunks that a knowledge base search returns")
    rag_template: str | None = forms.text(
        None,
        description="what a user message of a normal agent with `documents` becomes; has "
        "`__INPUT__`, `__CONTEXT__` and perhaps `__SOURCES__`; unset: ours",
    )
    rag_reranker_model: str | None = forms.text(
        None,
        description="model that reranks results of knowledge base searches; unset: none",
    )
    document_loaders: Commands = forms.mapping(
        {},
        description="commands that convert documents to text, by extension or prefix; "
        "JSON in the environment",
    )
    rag_document_max_bytes: int = forms.whole(
        64 * MIB, ge=1, description="largest document of a knowledge base"
    )
    rag_crawl_max_pages: int = forms.whole(
        500, ge=1, description="maximum pages read from one site, `https://…/**`"
    )
    archive: str | None = forms.text(
        None,
        description="directory or fsspec URL that finished runs move to; unset: they stay in Redis",
    )
    # A day's runs are looked at most on that day.
    archive_after_s: float = forms.decimal(
        3600.0, ge=0, description="how long after its end a run is archived"
    )
    archive_retention_s: float | None = forms.decimal(
        None, gt=0, description="how long a run stays in the archive; unset: for ever"
    )
    archive_key_file: str | None = forms.text(
        None,
        description="file with the key that encrypts what is archived; unset: it is not encrypted",
    )
    artifact_store: str | None = forms.text(
        None,
        description="directory or fsspec URL for indexes of knowledge bases; unset: Redis",
    )
    kb_max_bytes: int = forms.whole(
        512 * MIB, ge=1, description="largest packed knowledge base, as stored in Redis"
    )
    kb_cache_bytes: int = forms.whole(
        4096 * MIB, ge=1, description="maximum disk space for knowledge bases on a worker's machine"
    )
    rag_absolute_paths: bool = forms.switch(
        False, description="knowledge bases may read documents outside their agent's directory"
    )
    allow_unsafe_redis: bool = forms.switch(
        False, description="accept a Redis that evicts keys, at the risk of losing runs"
    )

    @property
    def machine_name(self) -> str:
        """The name by which runs are pinned to this machine."""
        return self.machine or gethostname()

    @property
    def identity(self) -> str:
        """Who acts here; login names alone mean different people on different machines."""
        return self.user or f"{user_name()}@{self.machine_name}"

    @property
    def secrets(self) -> Secrets:
        """The secrets of this machine."""
        return _secrets(self.secrets_file)


def _secrets(file: str | None) -> Secrets:
    return Secrets(Path(file).expanduser() if file else config_dir() / "secrets.yaml")


# The settings by name, in the order of declaration.
FIELDS = {each.name: each for each in fields(Settings)}


@dataclass(frozen=True)
class LoadedSettings:
    """Settings, with the origin of each value."""

    values: Settings
    origins: Mapping[str, str]


def load_settings(flags: Mapping[str, Any] | None = None) -> LoadedSettings:
    """Merge all sources; a flag of None counts as not given.

    Raises:
        SettingInvalid: naming the setting, its source and what is wrong with it.
    """
    values: dict[str, Any] = {}
    origins = dict.fromkeys(FIELDS, "default")
    from_environment = _from_environment()
    for source, found in (
        (str(config_dir() / "config.yaml"), _from_config(from_environment.get("secrets_file"))),
        ("environment", from_environment),
        ("flag", {k: v for k, v in (flags or {}).items() if v is not None}),
    ):
        values.update(found)
        origins.update(dict.fromkeys(found, source))
    checked = {name: checked_setting(name, value, origins[name]) for name, value in values.items()}
    if checked.get("redis_url_file"):
        _read_redis_url(checked, origins)
    return LoadedSettings(Settings(**checked), origins)


def _read_redis_url(values: dict[str, Any], origins: dict[str, str]) -> None:
    """Set `redis_url` to that of `redis_url_file`, or unset the file if a flag outdoes it.

    Raises:
        SettingInvalid: both come from the same source, or the file cannot be used.
    """
    url, file = origins["redis_url"], origins["redis_url_file"]
    if values.get("redis_url") and url == file:
        raise SettingInvalid(f"redis_url and redis_url_file are both set ({url}): unset one")
    if url == "flag" or (url == "environment" and file != "flag"):
        values["redis_url_file"] = None
        return
    values["redis_url"] = redis_url_file.UrlOfFile.read(values["redis_url_file"])
    origins["redis_url"] = "redis_url_file"


def checked_setting(name: str, value: Any, origin: str) -> Any:
    """Return the value as `Settings` holds it.

    Raises:
        SettingInvalid: naming the setting, its source and what is wrong with it.
    """
    about = FIELDS[name].metadata
    value, is_valid = about["form"].value_of(value, about["bounds"])
    if is_valid:
        return value
    try:
        return checking.checked(Settings, name, value)
    except WrongValue as error:
        place = f"{PREFIX}{name.upper()}" if origin == "environment" else name
        where = f"{'.'.join((place, *error.path))} (from {origin})"
        raise SettingInvalid(f"{where}: {error.problem}") from error


def _from_environment() -> dict[str, Any]:
    return {name: value for name in FIELDS if (value := os.environ.get(PREFIX + name.upper()))}


def _from_config(secrets_file: str | None) -> dict[str, Any]:
    file = config_dir() / "config.yaml"
    found = _from_file(file)
    secrets = _secrets(secrets_file or str(found.get("secrets_file") or ""))
    try:
        return resolved(found, secrets)
    except (SecretsMissing, SecretsUnusable) as error:
        raise SettingInvalid(f"{file}: {error}") from error


def resolved(values: Mapping[str, Any], secrets: Secrets) -> dict[str, Any]:
    """Return values of `config.yaml` with secrets resolved.

    Those of document loaders and providers' keys are resolved when one is used: a missing one stops
    nothing else.

    Raises:
        SecretsMissing: others are missing.
        SecretsUnusable: the secrets file cannot be read, or others can read it.
    """
    now = deepcopy(dict(values))
    loaders = {name: now.pop(name) for name in ("document_loaders",) if name in now}
    keys = {name: each["api_key"] for name, each in _providers(now).items() if "api_key" in each}
    for provider in _providers(now).values():
        provider.pop("api_key", None)
    found = {**secrets.resolve(now), **loaders}
    for name, key in keys.items():
        _providers(found)[name]["api_key"] = key
    return found


def _providers(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return `models.providers`, as far as it has the right form."""
    models = values.get("models")
    providers = models.get("providers") if isinstance(models, dict) else None
    found = providers.items() if isinstance(providers, dict) else ()
    return {name: each for name, each in found if isinstance(each, dict)}


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
        if name not in FIELDS:
            near = difflib.get_close_matches(str(name), FIELDS, 1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise SettingInvalid(f"{file}: unknown setting '{name}'{hint}")
    return {name: value for name, value in found.items() if value is not None}
