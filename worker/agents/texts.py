"""The engine's own texts for models: sections of prompts, and messages without a user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sleipnir.graphs.normal_agent import NormalAgent
from sleipnir.graphs.skills import SkillChoice, choice_of
from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.conversation.escalation import Escalation
from sleipnir.scheduler.runs.conversation.todo import TodoList
from sleipnir.scheduler.runs.teams import Membership

_TODO_SECTION = """\
## Todo list

For a task of more than a few steps, keep a todo list:

- `todo__init`: start a new list with a goal
- `todo__add`: add an item
- `todo__done`: mark an item as done
- `todo__list`: show the list
- `todo__clear`: delete all items and the goal

Write the list first, then work through it. Mark each item as soon as it is done, one at a time. If
the user cancels the request or asks for something else, clear the list at once. If you stop while
items are open, you get an automatic reminder."""

_PAUSE = """ If you need the user before you can continue, call
`todo__pause` with the reason and end your turn: you get no reminder until their next message."""

_AGENTS_SECTION = """\
## Other agents

You can delegate work to other agents. They run in parallel with you:

| tool | parameters | what it does |
|---|---|---|
| `agent__spawn` | agent, prompt, task_id, variables | start an agent; returns its id immediately |
| `agent__collect` | id | wait until an agent has finished; returns its result |
| `agent__check` | id | check whether an agent has finished; if so, returns its result |
| `agent__list` | | list the agents that you have not collected or cancelled |
| `agent__list_available` | | list the agents that you can start, with their variables |
| `agent__cancel` | id | cancel an agent and all agents that it started |
| `agent__task_create` | subject, description, blocked_by, agent, prompt, variables | add a task |
| `agent__task_list` | | list all tasks |
| `agent__task_complete`, `agent__task_fail` | task_id | mark a task as completed or failed |
| `agent__reply_escalation` | escalation_id, reply | answer an agent's question |

Spawn agents, continue with your own work, then collect them. Spawn independent agents in one reply.
An agent sees only its prompt, so include everything that it needs. No result arrives by itself:
collect or cancel every agent before you end. Waiting in `agent__collect` costs nothing, so do not
poll with `agent__check`.

Use the task queue for work that must be done in a certain order. A task is blocked until the tasks
in blocked_by are completed. If a task has an agent and a prompt, that agent starts automatically as
soon as the task is not blocked. Collect the agent, then mark its task as completed or failed;
completing it starts the tasks that it blocked.

If a result contains pending_escalations, agents that work for you are waiting for an answer, for a
limited time. Answer immediately from what you know, or ask the user first; then collect again.

Available agents:

{{__agents__}}"""

_TEAM_SECTION = """\
## Teammates

You can exchange messages with agents that you started, agents that were started together with you,
and the agent that started you:

- `agent__send_message` (id, message): put a message into a teammate's inbox; the id `parent` is the
  agent that started you
- `agent__check_inbox`: read new messages

Tell teammates what affects their work. A message is read only when the recipient checks its inbox,
so check yours before you finish."""

_SKILL_SECTION = """\
## Skills

A skill is a set of instructions and tools for one kind of task:

- `skill__list`: list the available skills, and whether each is loaded
- `skill__load`: load a skill; its instructions and tools are available from your next turn on
- `skill__unload`: unload a skill

List the skills before you start. Load a skill when it fits the task, and unload it when that part
is done."""

_USER_SECTION = """\
## Asking the user

Use these tools, not your answer, to ask for decisions, preferences and anything that is unclear:

- `user__ask` (question, options): choose one option, or answer freely; returns {"answer": text}
- `user__confirm` (question): yes or no; returns {"answer": "yes"} or {"answer": "no"}
- `user__input` (question): enter a text; returns {"answer": text}
- `user__checkbox` (question, options): choose any number of options; returns {"answers": [text]}

If another agent started you, your question is passed up to the agent or the user at the top. If no
answer comes in time, the result says so."""

_CONTINUATION = """\
[automatic message] Your todo list still has open items. Verify that work is right before you mark
its item as done. Split a broad item into single-purpose items with `todo__add` before you start it.
Continue with the next open item now by calling tools; do not announce it."""


_PENDING = """\
[automatic message] {count} of the agents that you started have not finished: {ids}. If you end now,
they are cancelled and their work is lost. Call `agent__collect` or `agent__cancel` for each of them
now. Saying that you will wait is not enough: without a call, nothing happens."""

_ASKED = """\
These questions of your agents are open, each for a limited time. Answer them first, with
`agent__reply_escalation`:

{questions}"""

_MEMBERS_SECTION = """\
## Your team

Your id is {own}. These agents run in parallel with you:

{others}

- `agent__send_message` (id, message): put a message into the inbox of one of them, even if it has
  not started yet
- `agent__check_inbox`: read new messages
- `agent__list`: see who has finished

Tell the others what affects their work, and check your inbox before you finish."""

_SHORTENING = """\
Summarise the report of the agent '{agent}' for the agent that requested it. Keep every code
fragment, path, error message and concrete recommendation unchanged. Remove repetition and filler.
Use at most about 30 % of the length. If there is a final answer, put it first; list several
findings as bullets. Reply with the summary only."""

SUMMARISE = """\
Summarise the following conversation between a user and an assistant that calls tools. Your summary
will replace the conversation. Keep what the user wants and has decided; what was done and found;
all names, paths, numbers, code and error messages that are still needed; and what remains to be
done. Leave out what is settled or repeated. If an earlier summary comes first, keep what is still
relevant of it. Reply with the summary only, without an introduction."""

_SUMMARY_INTRODUCTION = "This is a summary of the conversation so far:"


def summary_section(summary: str, todos: TodoList) -> str:
    """Return the section of a prompt that summarises the conversation so far."""
    listed = f"## Current todo list\n\n{todos.rendered()}\n\n" if todos.todos else ""
    return f"{listed}{_SUMMARY_INTRODUCTION}\n\n{summary}"


def sections(config: NormalAgent, *, is_child: bool = False) -> Iterator[str]:
    """Yield the sections of a prompt about the engine's functions, in order."""
    if config.auto_continue and config.inject_todo_instructions:
        yield _TODO_SECTION if is_child else _TODO_SECTION + _PAUSE
    if config.can_spawn_agents and config.inject_spawn_instructions:
        yield _AGENTS_SECTION
    if section := skill_section(choice_of(config)):
        yield section
    yield _TEAM_SECTION
    yield _USER_SECTION


def skill_section(choice: SkillChoice | None) -> str:
    """Return the section of a prompt about skills; empty if there is none."""
    if choice is None or not choice.inject:
        return ""
    return _SKILL_SECTION if choice.instructions is None else choice.instructions.strip()


def pending(ids: Sequence[str], escalations: Sequence[Escalation]) -> str:
    """Return the message to a model that stops while its agents go on, with their questions."""
    told = _PENDING.format(count=len(ids), ids=", ".join(ids))
    if not escalations:
        return told
    questions = encode([each.shown() for each in escalations])
    return f"{told}\n\n{_ASKED.format(questions=questions)}"


def members_section(joined: Membership) -> str:
    """Return the section of a prompt that names the others of a team."""
    lines = [f"- {each.id} ({each.label})" for each in joined.named()]
    if joined.others > len(lines):
        lines.append(f"- … and {joined.others - len(lines):,} more")
    return _MEMBERS_SECTION.format(own=joined.me.id, others="\n".join(lines))


def shortening(agent: str) -> str:
    """Return the instructions for shortening an agent's output."""
    return _SHORTENING.format(agent=agent)


def continuation(config: NormalAgent, todos: TodoList) -> str:
    """Return the message to a model that stops while its list has open items."""
    return f"{config.continuation_prompt or _CONTINUATION}\n\n{todos.rendered()}"
