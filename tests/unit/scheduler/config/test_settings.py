"""Settings: their sources, who wins, and what a wrong one says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sleipnir.scheduler.config.checking import checked
from sleipnir.scheduler.config.directories import config_dir, data_dir
from sleipnir.scheduler.config.secret_files.redis_url_file import Login, UrlOfFile
from sleipnir.scheduler.config.settings import FIELDS, Settings, load_settings
from sleipnir.scheduler.config.user import user_name
from sleipnir.scheduler.errors import SettingInvalid
from tests.support.pages import ROOT


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration file that does not exist yet; no setting from outside."""
    for name in FIELDS:
        monkeypatch.delenv(f"SLEIPNIR_{name.upper()}", raising=False)
    monkeypatch.setenv("SLEIPNIR_CONFIG_DIR", str(tmp_path))
    return tmp_path / "config.yaml"


def test_without_any_source_there_are_defaults() -> None:
    loaded = load_settings()

    assert (loaded.values.lease_s, loaded.values.max_deliveries) == (15.0, 20)
    assert loaded.values.retention_s == 7 * 24 * 3600
    assert set(loaded.origins.values()) == {"default"}


def test_flags_win_over_the_environment_and_that_over_the_file(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text("lease_s: 20\nworkers: 2\nmodel: openai:a\n")
    monkeypatch.setenv("SLEIPNIR_LEASE_S", "30")
    monkeypatch.setenv("SLEIPNIR_WORKERS", "4")

    loaded = load_settings({"lease_s": 40, "workers": None})

    assert (loaded.values.lease_s, loaded.values.workers, loaded.values.model) == (
        40,
        4,
        "openai:a",
    )
    assert [loaded.origins[name] for name in ("lease_s", "workers", "model", "drain_s")] == [
        "flag",
        "environment",
        str(config),
        "default",
    ]


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLEIPNIR_REDIS_URL", "")

    assert load_settings().values.redis_url is None


def redis_url_in(file: Path, text: str, mode: int = 0o600) -> str:
    """Write a file for `redis_url_file`, and return its name."""
    file.write_text(text)
    file.chmod(mode)
    return str(file)


def test_the_url_of_redis_may_be_in_a_file(config: Path) -> None:
    file = redis_url_in(config.with_name("url"), "rediss://me:s%40cret@db:1/2?ssl_ca_certs=/ca\n")
    config.write_text(f"redis_url_file: {file}\n")

    loaded = load_settings()

    assert loaded.values.redis_url == "rediss://db:1/2?ssl_ca_certs=/ca"
    assert isinstance(loaded.values.redis_url, UrlOfFile)
    assert loaded.values.redis_url.login() == Login("me", "s@cret")
    assert loaded.origins["redis_url"] == "redis_url_file"


@pytest.mark.parametrize("flag", [None, "redis://flag"])
def test_a_file_with_the_url_wins_by_where_it_is_set(
    config: Path, monkeypatch: pytest.MonkeyPatch, flag: str | None
) -> None:
    file = redis_url_in(config.with_name("url"), "redis://file")
    config.write_text("redis_url: redis://config\n")
    monkeypatch.setenv("SLEIPNIR_REDIS_URL_FILE", file)

    values = load_settings({"redis_url": flag}).values

    expected = ("redis://file", file) if flag is None else ("redis://flag", None)
    assert (values.redis_url, values.redis_url_file) == expected


@pytest.mark.parametrize(
    ("text", "mode", "reason"),
    [
        ("redis://:secret@db", 0o640, "open to other users: run `chmod 600"),
        ("secret", 0o600, "has no URL: write one line into it"),
        ("redis://:secret@db\n" * 300, 0o600, "more than 4096 characters"),
        ("redis://:sécret@db", 0o600, "cannot read"),
    ],
)
def test_a_file_without_a_usable_url_says_why(
    config: Path, text: str, mode: int, reason: str
) -> None:
    file = redis_url_in(config.with_name("url"), text, mode)

    with pytest.raises(SettingInvalid, match=reason) as refused:
        load_settings({"redis_url_file": file})

    assert "secret" not in str(refused.value)


def test_a_url_beside_a_file_with_one_is_refused(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLEIPNIR_REDIS_URL", "redis://one")
    monkeypatch.setenv("SLEIPNIR_REDIS_URL_FILE", redis_url_in(config.with_name("url"), "redis://"))

    with pytest.raises(SettingInvalid, match="both set \\(environment\\): unset one"):
        load_settings()


def test_lists_come_from_the_environment_as_paths_do(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text("tool_env: [A, B]\n")
    monkeypatch.setenv("SLEIPNIR_AGENTS_DIR", "/one::/two")

    values = load_settings().values

    assert (values.agents_dir, values.tool_env) == (("/one", "/two"), ("A", "B"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LEASE_S", "soon"),
        ("LEASE_S", "0.5"),
        ("RETENTION_S", "inf"),
        ("RETENTION_S", "nan"),
        ("CONCURRENCY", "0"),
        ("MAX_DELIVERIES", "2.5"),
        ("ALLOW_UNSAFE_REDIS", "perhaps"),
    ],
)
def test_a_wrong_variable_is_named_with_its_value(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"SLEIPNIR_{name}", value)

    with pytest.raises(SettingInvalid) as raised:
        load_settings()

    assert str(raised.value).startswith(f"SLEIPNIR_{name} (from environment): ")
    assert str(raised.value).endswith(f"got '{value}'")


def test_a_wrong_entry_of_a_list_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLEIPNIR_QUEUES", "gpu,Large")

    with pytest.raises(
        SettingInvalid, match=r"^SLEIPNIR_QUEUES\.1 .* a text like .*, got 'Large'$"
    ):
        load_settings()


def test_null_in_a_file_means_not_given(config: Path) -> None:
    config.write_text("lease_s: null\nmcp_tools:\nmodel: openai:m\n")

    assert load_settings().values == replace(Settings(), model="openai:m")


def test_a_wrong_entry_names_the_file(config: Path) -> None:
    config.write_text("lease_s: soon\n")

    with pytest.raises(SettingInvalid, match=r"lease_s .from .*config\.yaml"):
        load_settings()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("leese_s: 5\n", "unknown setting 'leese_s'; did you mean 'lease_s'?"),
        ("5: 5\n", "unknown setting '5'"),
        ("- 5\n", "expected a mapping"),
        ("a: [\n", "cannot read"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(config: Path, text: str, message: str) -> None:
    config.write_text(text)

    with pytest.raises(SettingInvalid) as raised:
        load_settings()

    assert str(config) in str(raised.value)
    assert message in str(raised.value)


def test_an_empty_file_sets_nothing(config: Path) -> None:
    config.write_text("# nothing yet\n")

    assert load_settings().values == Settings()  # type: ignore[call-arg]  # all have defaults


def test_every_setting_is_described() -> None:
    assert all(field.metadata["description"] for field in FIELDS.values())


def test_every_setting_is_used_somewhere() -> None:
    code = "\n".join(
        file.read_text(encoding="utf-8")
        for package in ("graphs", "scheduler", "worker")
        for file in (ROOT / package).rglob("*.py")
        if file.name != "settings.py"
    )

    assert [name for name in FIELDS if not re.search(rf"[.\"]{name}\b", code)] == []


def test_every_default_is_one_that_the_setting_takes() -> None:
    defaults = Settings()

    assert {name: checked(Settings, name, getattr(defaults, name)) for name in FIELDS} == {
        name: getattr(defaults, name) for name in FIELDS
    }


def test_texts_and_plain_numbers_are_not_worth_an_import_of_the_checks() -> None:
    code = (
        "import sys; from sleipnir.scheduler.config.settings import load_settings; "
        "values = load_settings().values; "
        "print(values.agents_dir, values.concurrency, values.lease_s, 'pydantic' in sys.modules)"
    )
    environment = {
        **os.environ,
        "SLEIPNIR_MODEL": "openai:a",
        "SLEIPNIR_REDIS_URL": "redis://x",
        "SLEIPNIR_AGENTS_DIR": "/one:/two",
        "SLEIPNIR_CONCURRENCY": "8",
        "SLEIPNIR_LEASE_S": "2.5",
    }

    said = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout

    assert said == "('/one', '/two') 8 2.5 False\n"


def test_directories_follow_the_xdg_variables(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SLEIPNIR_CONFIG_DIR")
    monkeypatch.delenv("SLEIPNIR_DATA_DIR", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/ada")

    assert config_dir() == tmp_path / "sleipnir"
    assert data_dir() == Path("/home/ada/.local/share/sleipnir")


def test_texts_of_the_file_may_name_secrets(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_PASSWORD", "s3cret-word")
    config.write_text("redis_url: redis://:{{REDIS_PASSWORD}}@redis:6379/0\n# {{COMMENT}}\n")

    assert load_settings().values.redis_url == "redis://:s3cret-word@redis:6379/0"


def test_missing_secrets_are_named_together(config: Path) -> None:
    config.write_text("redis_url: '{{ONE_SECRET}}'\nmodel: '{{TWO_SECRETS}}'\n")

    with pytest.raises(SettingInvalid, match=r"\{\{ONE_SECRET\}\}, \{\{TWO_SECRETS\}\}"):
        load_settings()


def test_a_secret_that_only_a_document_loader_needs_stops_nothing_else(config: Path) -> None:
    loaders = {"odt": "convert --key {{NO_SUCH_SECRET}} $1"}
    config.write_text(f"model: openai:a\ndocument_loaders: {loaders}\n")

    assert load_settings().values.document_loaders == loaders


def test_a_setting_says_where_secrets_are(config: Path) -> None:
    file = config.parent / "hidden.yaml"
    file.write_text("MODEL_NAME: openai:a\n")
    file.chmod(0o600)
    config.write_text(f"secrets_file: {file}\nmodel: '{{{{MODEL_NAME}}}}'\n")

    settings = load_settings().values

    assert settings.model == "openai:a"
    assert settings.secrets.resolve("{{MODEL_NAME}}") == "openai:a"


def test_aliases_in_the_environment_are_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLEIPNIR_MAPPING_MCP_SERVERS", '{"web": "search, fetch", "x": ["y"]}')

    assert load_settings().values.mapping_mcp_servers == {"web": "search, fetch", "x": ["y"]}

    for text in ("web", "[" * 100_000):
        monkeypatch.setenv("SLEIPNIR_MAPPING_MCP_SERVERS", text)
        with pytest.raises(SettingInvalid, match="SLEIPNIR_MAPPING_MCP_SERVERS"):
            load_settings()


def test_who_one_is_is_a_login_on_a_machine_unless_configured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLEIPNIR_MACHINE", "desk")
    login = load_settings().values.identity
    monkeypatch.setenv("SLEIPNIR_USER", "ann")

    assert login == f"{user_name()}@desk"
    assert load_settings().values.identity == "ann"
