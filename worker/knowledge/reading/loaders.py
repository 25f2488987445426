"""Commands that convert documents to text: those in the settings, and ours for PDF and DOCX."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from sleipnir.graphs.files import MIB, read_text, reason
from sleipnir.graphs.knowledge.sources import BUILT_IN_LOADERS, SourceError
from sleipnir.records import dataclass
from sleipnir.scheduler.config.secrets import hidden
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.errors import SecretsMissing, SecretsUnusable
from sleipnir.worker.sandbox.child_process import Finished, base_environment, run_process
from sleipnir.worker.sandbox.limits import ProgramLimits
from sleipnir.worker.visit.cancellation import Cancellation

_INPUT, _OUTPUT = "$1", "$2"
_STDERR_SHOWN = 500
# In a process of its own, as a document may make a library hang.
_OURS = (sys.executable, "-m", "sleipnir.worker.knowledge.reading.plain_text")


@dataclass(frozen=True, slots=True)
class LoaderText:
    """A text made by a loader; `path` is None if it made only one."""

    path: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Loaders:
    """The loader commands that may be used here, by name."""

    settings: Settings
    commands: Mapping[str, str]
    cancellation: Cancellation = field(default_factory=Cancellation)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.commands) | BUILT_IN_LOADERS

    def text_of(self, name: str, target: str) -> str:
        """Return what a loader makes of a path or URL.

        Raises:
            SourceError: it fails, takes too long, or makes too much.
        """
        with tempfile.TemporaryDirectory(prefix="sleipnir-loader-") as directory:
            output = Path(directory, "output")
            command = self._command(name, target, output)
            printed = self._run(name, command, Path(directory))
            if not any(_OUTPUT in word for word in self._words(name)):
                return _decoded(printed, name)
            try:
                return read_text(output, self.settings.rag_document_max_bytes)
            except UnicodeDecodeError as error:
                raise SourceError(f"the loader '{name}' wrote what is not UTF-8") from error
            except (OSError, ValueError) as error:
                raise SourceError(
                    f"the loader '{name}' wrote no output: {reason(error)}"
                ) from error

    def texts_of(self, name: str, target: str) -> list[LoaderText]:
        """Return the text, or several from a JSON array of `{"path", "contents"}`."""
        text = self.text_of(name, target)
        found = _texts_in(text, "contents")
        return [LoaderText(None, text)] if found is None else _some(found, name)

    def pages_of(self, name: str, target: str) -> list[LoaderText]:
        """Return the pages that the loader finds below a URL; raises as `text_of`."""
        found = _texts_in(self.text_of(name, target), "text")
        if found is None:
            wanted = '[{"path": …, "text": …}, …]'
            raise SourceError(f"the loader '{name}' did not print {wanted}")
        return _some(found, name)

    def _words(self, name: str) -> Sequence[str]:
        if name not in self.commands:
            return (*_OURS, name, _INPUT, str(self.settings.rag_document_max_bytes))
        try:
            return shlex.split(self.commands[name])
        except ValueError as error:
            raise SourceError(f"document_loaders.{name}: {error}") from error

    def _command(self, name: str, target: str, output: Path) -> list[str]:
        words = self._words(name)
        if not any(_INPUT in word for word in words):
            raise SourceError(f"document_loaders.{name}: the command has no $1")
        try:
            resolved = [self.settings.secrets.resolve(word) for word in words]
        except (SecretsMissing, SecretsUnusable) as error:
            raise SourceError(f"document_loaders.{name}: {error}") from error
        # In one pass, as a path may contain "$2".
        return [_replaced(word, {_INPUT: target, _OUTPUT: str(output)}) for word in resolved]

    def _run(self, name: str, command: Sequence[str], directory: Path) -> bytes:
        settings = self.settings
        try:
            finished = run_process(
                command,
                environment=base_environment(settings.tool_env),
                workdir=directory,
                timeout_s=settings.tool_timeout or None,
                output_limit_bytes=settings.rag_document_max_bytes,
                cancellation=self.cancellation,
                limits=ProgramLimits.of(settings),
            )
        except FileNotFoundError as error:
            raise SourceError(
                f"the loader '{name}' needs '{command[0]}', which is missing"
            ) from error
        except (OSError, ValueError) as error:
            raise SourceError(f"the loader '{name}' cannot start: {reason(error)}") from error
        if failure := _failure(finished, settings):
            raise SourceError(f"the loader '{name}' {failure}")
        return finished.stdout


def loaders_here(settings: Settings, cancellation: Cancellation | None = None) -> Loaders:
    """Return the loaders in this machine's settings, and ours."""
    return Loaders(settings, settings.document_loaders, cancellation or Cancellation())


def own_loaders(settings: Settings, cancellation: Cancellation) -> Loaders:
    """Return the loaders that are the same on every machine."""
    return Loaders(settings, {}, cancellation)


def _failure(finished: Finished, settings: Settings) -> str | None:
    if finished.timed_out:
        return f"took longer than {settings.tool_timeout:g} s (tool_timeout)"
    if finished.too_large:
        limit = settings.rag_document_max_bytes / MIB
        return f"made more than {limit:g} MiB (rag_document_max_bytes)"
    if finished.returncode == 0:
        return None
    said = hidden(finished.said.decode(errors="replace").strip()[-_STDERR_SHOWN:])
    ending = finished.exceeded or f"failed with exit code {finished.returncode}"
    return f"{ending}: {said}" if said else ending


def _decoded(printed: bytes, name: str) -> str:
    try:
        return printed.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError(f"the loader '{name}' printed what is not UTF-8") from error


def _texts_in(text: str, field: str) -> list[LoaderText] | None:
    """Return the texts in a JSON array of objects with a path and that field; else None."""
    if not text.lstrip().startswith("["):
        return None
    try:
        return [_text_in(value, field) for value in json.loads(text)]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _text_in(value: Any, field: str) -> LoaderText:
    path, text = value["path"], value[field]
    if not isinstance(path, str) or not isinstance(text, str):
        raise TypeError
    return LoaderText(path, text)


def _some(found: list[LoaderText], name: str) -> list[LoaderText]:
    if not found:
        raise SourceError(f"the loader '{name}' found no document")
    return found


def _replaced(word: str, values: Mapping[str, str]) -> str:
    head, mark, rest = word.partition("$")
    if not mark:
        return word
    name = f"${rest[:1]}"
    return head + values.get(name, name) + _replaced(rest[1:], values)
