"""Secrets: the values of `{{NAME}}` in `config.yaml`, in `mcp.json` and in agents' defaults.

They come from the secrets file, else from the environment, of the machine that uses them. Resolved
values are remembered there, so that they can be masked in everything shown to people.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from sleipnir.graphs.files import MIB, open_plain, read_bounded, reason
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.errors import SecretsMissing, SecretsUnusable

with lazy_imports():
    import yaml

T = TypeVar("T")

_REFERENCE = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO

# Masking shorter ones would also hide ordinary words.
_SHORTEST_HIDDEN = 6
_MASK = "***"

_handed_out: set[str] = set()
_handing_out = threading.Lock()


class Secrets:
    """The secrets of this machine; the file is re-read whenever it changes."""

    def __init__(self, file: Path, environment: Mapping[str, str] = os.environ) -> None:
        self.file = file
        self._environment = environment
        self._read: tuple[tuple[int, ...], Mapping[str, str]] = ((), {})

    def resolve(self, value: T) -> T:
        """Return a text, or JSON of any depth, with every `{{NAME}}` in it replaced.

        Raises:
            SecretsMissing: names without a value; lists all of them.
            SecretsUnusable: the secrets file cannot be read, or others can read it.
        """
        found: dict[str, str] = {}
        missing: list[str] = []
        for name in secrets_in(value):
            secret = self._find(name)
            if secret is None:
                missing.append(name)
            else:
                found[name] = secret
        if missing:
            raise SecretsMissing(missing, str(self.file))
        _remember(found.values())
        return _replaced(value, found)

    def api_key(self, name: str) -> str | None:
        """Return a provider's key by its variable name, preferably from the environment.

        Raises:
            SecretsUnusable: the secrets file cannot be read, or others can read it.
        """
        if key := self._environment.get(name):
            return key
        key = self._in_file().get(name)
        _remember([key] if key else [])
        return key

    def names(self) -> list[str]:
        """Return the names in the file.

        Raises:
            SecretsUnusable: the secrets file cannot be read, or others can read it.
        """
        return list(self._in_file())

    def _find(self, name: str) -> str | None:
        return self._in_file().get(name) or self._environment.get(name)

    def _in_file(self) -> Mapping[str, str]:
        try:
            with open_plain(self.file) as stream:
                status = os.fstat(stream.fileno())
                if status.st_mode & _FOR_OTHERS:
                    raise SecretsUnusable(
                        f"{self.file} is open to other users: run `chmod 600 {self.file}`"
                    )
                version = (status.st_ino, status.st_mtime_ns, status.st_size)
                if version != self._read[0]:
                    text = read_bounded(stream, MIB, self.file).decode()
                    self._read = (version, _parsed(self.file, text))
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as error:
            raise SecretsUnusable(f"cannot read {self.file}: {reason(error)}") from error
        return self._read[1]


def hidden(value: T) -> T:
    """Return a text, or JSON of any depth, with all secrets resolved by this process masked."""
    with _handing_out:
        secrets = [secret for secret in _handed_out if len(secret) >= _SHORTEST_HIDDEN]
    # The longest first: one may be part of another.
    return _without(value, sorted(secrets, key=len, reverse=True)) if secrets else value


def lines_too(secrets: Iterable[str]) -> Iterator[str]:
    """Yield the secrets, and each line of multi-line ones: output is often shown by lines."""
    for secret in secrets:
        yield secret
        if "\n" in secret:
            yield from map(str.strip, secret.splitlines())


def _remember(secrets: Iterable[str]) -> None:
    with _handing_out:
        _handed_out.update(lines_too(secrets))


def _parsed(file: Path, text: str) -> Mapping[str, str]:
    try:
        # This loader keeps secrets that look like numbers or dates as texts.
        found = yaml.load(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        # The error's text would quote the line.
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SecretsUnusable(f"cannot read {file}: line {line} is not valid YAML") from None
    except yaml.YAMLError:
        raise SecretsUnusable(f"cannot read {file}: it is not valid YAML") from None
    if not found:
        return {}
    if not isinstance(found, dict) or not all(
        isinstance(part, str) for pair in found.items() for part in pair
    ):
        raise SecretsUnusable(f"{file}: expected one `NAME: value` a line")
    return found


def secrets_in(value: Any) -> tuple[str, ...]:
    """Return the names in the `{{NAME}}`s of a text, or of JSON of any depth."""
    found: list[str] = []

    def collect(text: str) -> str:
        found.extend(_REFERENCE.findall(text))
        return text

    _mapped(value, collect)
    return tuple(dict.fromkeys(found))


def _replaced(value: T, secrets: Mapping[str, str]) -> T:
    # In a single pass: a secret's value is not a template.
    return _mapped(value, lambda text: _REFERENCE.sub(lambda name: secrets[name[1]], text))


def _without(value: T, secrets: Iterable[str]) -> T:
    def cleaned(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, _MASK)
        return text

    return _mapped(value, cleaned)


def _mapped(value: T, change: Callable[[str], str]) -> T:
    """Return JSON of the same shape with every text changed, but not the keys."""
    changed: Any = value
    match value:
        case str():
            changed = change(value)
        case dict():
            changed = {key: _mapped(part, change) for key, part in value.items()}
        case list() | tuple():
            changed = type(value)(_mapped(part, change) for part in value)
    return changed  # type: ignore[no-any-return]  # of the type that came in
