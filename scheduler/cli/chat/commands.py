"""Commands within a chat: words that begin with a dot."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol

_WORD = re.compile(r"\.[a-z]+(?= |$)")


class UnknownCommand(Exception):
    """There is no such command; the text says what to do."""


class Commanded(Protocol):
    """What the commands act on."""

    def leave(self) -> None: ...

    def send_starter(self, number: str) -> None: ...

    def clear(self, what: str) -> None: ...

    def show_sources(self, what: str) -> None: ...

    def show_info(self) -> None: ...

    def show_help(self) -> None: ...


class _Command(NamedTuple):
    usage: str
    help: str
    act: Callable[[Commanded, str], None]


COMMANDS: Mapping[str, _Command] = {
    ".help": _Command(".help", "Show this.", lambda chat, _: chat.show_help()),
    ".starter": _Command(
        ".starter [NUMBER]",
        "List conversation starters, or send one of them.",
        lambda chat, number: chat.send_starter(number),
    ),
    ".clear": _Command(
        ".clear todo", "Clear the agent's todo list.", lambda chat, what: chat.clear(what)
    ),
    ".sources": _Command(
        ".sources rag",
        "List the documents that the last answer used.",
        lambda chat, what: chat.show_sources(what),
    ),
    ".info": _Command(
        ".info", "Show agent, session, last run and cost.", lambda chat, _: chat.show_info()
    ),
    ".exit": _Command(".exit", "Leave, as Ctrl-D does.", lambda chat, _: chat.leave()),
}


def is_command(message: str) -> bool:
    """Return whether a message is a command rather than for the agent."""
    return "\n" not in message and _WORD.match(message) is not None


def obey(chat: Commanded, message: str) -> None:
    """Carry out a command.

    Raises:
        UnknownCommand: there is no such command.
    """
    word, _, rest = message.partition(" ")
    command = COMMANDS.get(word)
    if command is None:
        raise UnknownCommand(f"no command '{word}'; .help lists the commands")
    command.act(chat, rest.strip())


def help_lines() -> Iterator[str]:
    """Yield the lines of `.help`."""
    width = max(len(command.usage) for command in COMMANDS.values())
    for command in COMMANDS.values():
        yield f"{command.usage:{width}}  {command.help}"
    yield "Enter sends the message; Alt-Enter starts a new line; pasted lines stay together."
    yield "Ctrl-C cancels a reply, or clears the line."
