"""Commands within a chat: words that begin with a dot, at a terminal also with a slash."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sleipnir.scheduler.cli.chat.actions import Actions

_WORD = re.compile(r"\.[a-z]+(?= |$)")
_AT_TERMINAL = re.compile(r"/[a-z]+(?= |$)")
# Its text may have several lines.
_FILE = "file "
# What people type to leave.
_LEAVING = frozenset({"exit", "quit", ":q", "/quit", ".quit"})


class UnknownCommand(Exception):
    """There is no such command, or it does not apply; the text says what to do."""


class _Command(NamedTuple):
    usage: str
    help: str
    act: Callable[[Actions, str], None]


COMMANDS: Mapping[str, _Command] = {
    ".help": _Command(".help", "Show this.", lambda chat, _: chat.show_help()),
    ".file": _Command(
        ".file PATH|URL… [-- TEXT]",
        "Send TEXT with files, the files of directories, or pages.",
        lambda chat, rest: chat.send_files(rest),
    ),
    ".undo": _Command(
        ".undo",
        "Take the last message and its answer out of the conversation.",
        lambda chat, _: chat.undo(),
    ),
    ".regenerate": _Command(
        ".regenerate",
        "Undo, and send the same message again.",
        lambda chat, _: chat.regenerate(),
    ),
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
    ".session": _Command(
        ".session NAME",
        "Keep this conversation under a name.",
        lambda chat, name: chat.name(name),
    ),
    ".info": _Command(
        ".info", "Show agent, session, last run and cost.", lambda chat, _: chat.show_info()
    ),
    ".exit": _Command(".exit", "Leave, as Ctrl-D does.", lambda chat, _: chat.leave()),
}
# What commands of other tools are here.
INSTEAD: Mapping[str, str] = {
    ".agent": "sleipnir chat NAME",
    ".fork": "sleipnir fork",
    ".rebuild": "sleipnir kb build",
    ".vault": "secrets.yaml in the configuration directory",
}


def is_command(message: str, *, at_terminal: bool) -> bool:
    """Return whether a message is a command rather than for the agent."""
    if "\n" in message:
        return message.startswith((f".{_FILE}", f"/{_FILE}") if at_terminal else f".{_FILE}")
    typed = at_terminal and (_AT_TERMINAL.match(message) or message.strip().lower() in _LEAVING)
    return bool(typed or _WORD.match(message))


def obey(chat: Actions, message: str) -> None:
    """Carry out a command.

    Raises:
        UnknownCommand: there is no such command.
    """
    word, _, rest = message.strip().partition(" ")
    if word.lower() in _LEAVING:
        word = ".exit"
    name = f".{word[1:]}"
    command = COMMANDS.get(name)
    if command is None:
        here = f"here it is {INSTEAD[name]}; " if name in INSTEAD else ""
        sent = "; begin with a blank to send it" if word.startswith("/") else ""
        raise UnknownCommand(f"no command '{word}'; {here}.help lists the commands{sent}")
    command.act(chat, rest.strip())


def help_lines() -> Iterator[str]:
    """Yield the lines of `.help`."""
    width = max(len(command.usage) for command in COMMANDS.values())
    for command in COMMANDS.values():
        yield f"{command.usage:{width}}  {command.help}"
    yield "Enter sends the message; Alt-Enter starts a new line; pasted lines stay together."
    yield "Ctrl-C cancels a reply, or clears the line; a second one leaves, as exit and quit do."
    yield "Commands may begin with / too; a message that does is sent if a blank comes first."
