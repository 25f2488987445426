"""Secrets: where they come from, how they are put in, and that they do not show."""

from __future__ import annotations

from pathlib import Path

import pytest

from sleipnir.scheduler.config.secrets import Secrets, hidden
from sleipnir.scheduler.errors import SecretsMissing, SecretsUnusable


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A secrets file as it should be; the environment of these tests holds more."""
    file = tmp_path / "secrets.yaml"
    file.write_text("TOKEN: from-the-file\nPIN: 0042\n# {{COMMENT}}\n")
    file.chmod(0o600)
    return file


@pytest.fixture
def secrets(file: Path) -> Secrets:
    return Secrets(file, {"TOKEN": "from-the-environment", "OTHER": "value-of-other"})


def test_every_reference_of_a_line_is_replaced(secrets: Secrets) -> None:
    text = secrets.resolve("a {{TOKEN}}, {{ PIN }} and {{  OTHER}}; {{not a name}} {{1}} {TOKEN}")

    assert text == ("a from-the-file, 0042 and value-of-other; {{not a name}} {{1}} {TOKEN}")


def test_json_keeps_its_shape_and_its_field_names(secrets: Secrets) -> None:
    value = {"{{PIN}}": ["{{PIN}}", 5, None, {"deep": ("{{OTHER}}", True)}]}

    assert secrets.resolve(value) == {
        "{{PIN}}": ["0042", 5, None, {"deep": ("value-of-other", True)}]
    }


def test_what_a_secret_holds_is_no_template(tmp_path: Path) -> None:
    secrets = Secrets(tmp_path / "none", {"A": "{{B}}", "B": "b"})

    assert secrets.resolve("{{A}}") == "{{B}}"


def test_one_error_names_everything_that_is_missing(secrets: Secrets) -> None:
    with pytest.raises(SecretsMissing) as refused:
        secrets.resolve({"a": "{{ONE}} {{TOKEN}}", "b": ["{{TWO}} {{ONE}}"]})

    assert refused.value.names == ("ONE", "TWO")
    assert "{{ONE}}, {{TWO}}" in str(refused.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622])
def test_a_file_open_to_others_is_refused(secrets: Secrets, file: Path, mode: int) -> None:
    file.chmod(mode)

    with pytest.raises(SecretsUnusable, match="chmod 600"):
        secrets.resolve("{{PIN}}")


@pytest.mark.parametrize("text", ["- a\n", "A: [1]\n", "hunter2: [", "hunter2", "\x00hunter2"])
def test_a_file_of_another_form_is_refused_without_quoting_it(
    secrets: Secrets, file: Path, text: str
) -> None:
    file.write_text(text)

    with pytest.raises(SecretsUnusable) as refused:
        secrets.resolve("{{PIN}}")

    assert str(file) in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_without_references_nothing_is_read(secrets: Secrets, file: Path) -> None:
    file.chmod(0o644)

    assert secrets.resolve(["nothing", 1]) == ["nothing", 1]


def test_a_changed_file_counts_at_once(secrets: Secrets, file: Path) -> None:
    assert secrets.resolve("{{TOKEN}}") == "from-the-file"

    file.write_text("TOKEN: tok-two\n")

    assert secrets.resolve("{{TOKEN}}") == "tok-two"


def test_keys_of_providers_come_from_the_environment_first(secrets: Secrets) -> None:
    assert secrets.api_key("TOKEN") == "from-the-environment"
    assert secrets.api_key("PIN") == "0042"
    assert secrets.api_key("NONE") is None


def test_what_was_resolved_is_hidden_from_then_on(tmp_path: Path) -> None:
    secrets = Secrets(tmp_path / "none", {"LONG": "unheard-of", "LONGER": "unheard-of-2", "S": "x"})
    shown = {"text": "an unheard-of-2, an unheard-of, an x", "n": 1}
    assert hidden(shown) == shown

    secrets.resolve("{{LONG}}{{LONGER}}{{S}}")

    assert hidden(shown) == {"text": "an ***, an ***, an x", "n": 1}


def test_no_line_of_a_secret_shows_either(tmp_path: Path) -> None:
    secrets = Secrets(tmp_path / "none", {"KEY": "unseen-first\n  unseen-second\n"})

    secrets.resolve("{{KEY}}")

    assert hidden("a unseen-second, then unseen-first") == "a ***, then ***"
