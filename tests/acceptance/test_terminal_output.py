"""On a terminal nothing that comes from outside is obeyed; pipes get every byte."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
from pathlib import Path

import pytest

from sleipnir.scheduler.embedded.supervisor import die_with_parent
from tests.support.command_line import COMMAND, TIME_LIMIT_S, Sleipnir

# Sets a title, rings, clears the screen, colours, hides, and turns the direction of writing.
HOSTILE = "\x1b]0;title\x07\x1b[2J\x9b31m\x1b[8mhidden\x1b[32m\u202eevil\r"
SHOWN = r"\x1b]0;title\x07\x1b[2J\x9b31m\x1b[8mhidden\x1b[32m\u202eevil"
# The styles that are ours: weights, and colours of words of ours.
STYLES = re.compile(r"\x1b\[(?:0|1|2|3[1-6])m")

GRAPH = """
description: {hostile}
conversation_starters: [{hostile}]
variables:
  - {{name: tone, description: {hostile}, default: {hostile}}}
start: work
nodes:
  work:
    type: script
    script: work.py
    next: ask
  ask:
    type: approval
    question: {hostile}
    options: [{hostile}, "no"]
    routes: {{{hostile}: done, "no": fail}}
    on_other: done
    state_updates: {{said: "{{{{output}}}}"}}
  fail: {{type: script, script: fail.py, next: done}}
  done: {{type: end, output: "{{{{loud}}}}"}}
"""
WORK = """#!/usr/bin/env python3
import json, sys
hostile = json.loads({hostile!r})
print(hostile, file=sys.stderr)
print(json.dumps({{"loud": hostile, hostile: hostile}}))
"""
FAIL = """#!/usr/bin/env python3
import json, sys
sys.exit(json.loads({hostile!r}))
"""


@pytest.fixture(scope="module")
def sleipnir(shared_engine: Sleipnir) -> Sleipnir:
    """The command, with an agent that says hostile things wherever it can."""
    hostile = json.dumps(HOSTILE)
    shared_engine.write(
        "loud",
        GRAPH.format(hostile=hostile),
        {"work.py": WORK.format(hostile=hostile), "fail.py": FAIL.format(hostile=hostile)},
    )
    shared_engine.write("odd", f"start: {hostile}\nnodes: {{done: {{type: end}}, x: {{}}}}\n")
    return shared_engine


def on_terminal(sleipnir: Sleipnir, *arguments: str) -> str:
    """All that a command shows on a terminal where nobody types."""
    ours, its = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=sleipnir.project,
        env={**sleipnir.environment, "TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        stdout=its,
        stderr=its,
        preexec_fn=die_with_parent(signal.SIGKILL),
    )
    os.close(its)
    collected = bytearray()
    with contextlib.suppress(OSError):  # the other end is closed
        while chunk := os.read(ours, 65536):
            collected += chunk
    os.close(ours)
    process.wait(TIME_LIMIT_S)
    return collected.decode(errors="replace").replace("\r\n", "\n")


def require_harmless(text: str) -> None:
    rest = STYLES.sub("", text)
    assert not {c for c in rest if not c.isprintable()} - {"\n", "\t"}, rest


def test_every_verb_shows_what_a_terminal_would_obey(sleipnir: Sleipnir, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("one\n")
    waiting = sleipnir("submit", "loud", HOSTILE).stdout.strip()
    failing = sleipnir("submit", "loud", "--answer", "ask=no").stdout.strip()
    ended = sleipnir("submit", "loud", "--answer", f"ask={HOSTILE}").stdout.strip()
    for run_id in (failing, ended):
        sleipnir("watch", run_id)
    calls = [
        ("run", "loud", HOSTILE),
        ("run", "loud", HOSTILE, "--answer", "ask=no"),
        ("run", HOSTILE, "x"),
        ("batch", "loud", str(lines), "--name", f"loud{HOSTILE}", "-q"),
        ("ps",),
        *[("show", run_id) for run_id in (waiting, failing, ended, HOSTILE)],
        ("watch", ended),
        ("logs", waiting),
        ("state", failing),
        ("inbox",),
        ("answer", ended, HOSTILE),
        ("limits", HOSTILE),
        ("validate", "loud", "odd", "--json"),
        ("draw", "loud", "--run", waiting),
        ("agents",),
        ("agents", "loud"),
        ("tools", "loud", HOSTILE),
        ("test", "loud", HOSTILE),
        (HOSTILE,),
    ]

    shown = {call: on_terminal(sleipnir, *call) for call in calls}

    for text in shown.values():
        require_harmless(text)
    for call in (("show", failing), ("logs", waiting), ("agents", "loud")):
        assert SHOWN in shown[call]
    # By the tests' own measure: a colour of ours, so that a terminal is known to be one.
    assert STYLES.search(shown["ps",])


def test_a_pipe_gets_every_byte(sleipnir: Sleipnir) -> None:
    done = sleipnir("run", "loud", "x", "--answer", "ask=yes")

    assert done.stdout == HOSTILE.removesuffix("\r") + "\n"  # read as text: "\r\n" is a line end
