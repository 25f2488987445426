"""What the commands within a chat do."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sleipnir.records import dataclass
from sleipnir.scheduler.cli.attached_files import attaching
from sleipnir.scheduler.cli.chat.commands import COMMANDS, UnknownCommand, help_lines
from sleipnir.scheduler.config.machine_facts import machine_facts
from sleipnir.scheduler.errors import SessionInUse, SubmissionRefused
from sleipnir.scheduler.runs.conversation.memory import SOURCES
from sleipnir.scheduler.runs.conversation.rendering import render
from sleipnir.scheduler.views.text.formatting import cost, first_line, tokens
from sleipnir.scheduler.views.text.terminal_output import printable

if TYPE_CHECKING:
    from sleipnir.scheduler.cli.chat.chat import Chat

_TEXT_FOLLOWS = re.compile(r"(?:^|\s)--(?:\s|$)")


@dataclass(frozen=True, slots=True)
class Actions:
    """The commands of one chat; all raise `UnknownCommand` where they do not apply."""

    chat: Chat

    def leave(self) -> None:
        self.chat.leave()

    def name(self, session: str) -> None:
        """Have the conversation go on under a name from the next message on."""
        if self.chat.session is None:
            raise UnknownCommand(f"'{self.chat.agent}' is a graph agent, which has no sessions")
        self.chat.session.give_name(session)
        tell([f"from the next message on this is session '{session}'"])

    def show_help(self) -> None:
        tell(help_lines())

    def send_files(self, rest: str) -> None:
        """Send a text with files: `PATH… -- TEXT`."""
        names, *texts = _TEXT_FOLLOWS.split(rest, maxsplit=1)
        try:
            places = shlex.split(names)
        except ValueError as error:
            raise UnknownCommand(f".file: {error}") from error
        if not places:
            raise UnknownCommand(f"say which files: {COMMANDS['.file'].usage}")
        files = attaching(self.chat.client.store.settings, lambda line: tell([line]))
        self.chat.send(files.with_files("".join(texts).strip(), places))

    def undo(self) -> None:
        """Take the last message and its answer out of the conversation."""
        self._undo(".undo")
        tell(
            [
                "your last message and its answer are not part of the conversation any more; "
                "what tools did stays done, and the run is kept"
            ]
        )

    def regenerate(self) -> None:
        """Have the last message answered anew."""
        message = self._undo(".regenerate")
        tell([f"> {first_line(message)}", "what tools did for the first answer stays done"])
        self.chat.send(message)

    def _undo(self, command: str) -> str:
        if self.chat.session is None:
            raise UnknownCommand(
                f"{command} is for normal agents; '{self.chat.agent}' is a graph agent, whose runs "
                "are independent of each other"
            )
        try:
            message = self.chat.session.undo()
        except SessionInUse as error:
            raise UnknownCommand(f"{command} has to wait: {error}") from error
        except SubmissionRefused as error:
            raise UnknownCommand(str(error)) from error
        self.chat.forget_last()
        return message

    def send_starter(self, number: str) -> None:
        """Send a suggested message of the agent, or list them if none is chosen."""
        starters = [render(starter, self._values()) for starter in self.chat.starters]
        chosen = {str(n): text for n, text in enumerate(starters, 1)}.get(number)
        if chosen is not None:
            tell([f"> {chosen}"])
            self.chat.send(chosen)
        elif starters:
            tell(f"{n}) {first_line(text)}" for n, text in enumerate(starters, 1))
        else:
            tell([f"'{self.chat.agent}' has no conversation starters"])

    def clear(self, what: str) -> None:
        if what != "todo":
            raise UnknownCommand("say what to clear: .clear todo")
        if self.chat.config is None or not self.chat.config.auto_continue:
            raise UnknownCommand(f"'{self.chat.agent}' has no todo list")
        self.chat.clears_todos = True
        tell(["the todo list will be empty from the next message on"])

    def show_sources(self, what: str) -> None:
        if what != "rag":
            raise UnknownCommand("say which sources: .sources rag")
        last, is_graph = self.chat.last, self.chat.config is None
        state: Mapping[str, Any] = {}
        if last is not None and not is_graph:
            state = self.chat.client.state(last.run_id)
        sources = state.get(SOURCES, ())
        none = "the last answer used no documents"
        if is_graph and last is not None:
            none = f"a graph keeps what it found in its state: sleipnir state {last.run_id}"
        tell(sources or [none])

    def show_info(self) -> None:
        chat = self.chat
        kind = "graph" if chat.config is None else "normal"
        lines = [f"agent     {chat.agent} ({kind} agent)"]
        if chat.session is not None:
            lines.append(f"session   {chat.session.name if chat.session.is_kept else 'none'}")
        if chat.last is not None:
            lines.append(f"last run  {chat.last.run_id} ({chat.last.status})")
        lines.append(f"used      {tokens(chat.usage)} tokens, {cost(chat.usage)}")
        tell(lines)

    def _values(self) -> Mapping[str, str]:
        """Return the values for placeholders in conversation starters."""
        return {**machine_facts(), "__cwd__": str(Path.cwd()), **self.chat.known}


def tell(lines: Iterable[str]) -> None:
    """Print lines beside the conversation."""
    for line in lines:
        click.echo(printable(line), err=True)
