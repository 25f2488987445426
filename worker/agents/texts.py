"""The engine's own texts for models: sections of prompts, and messages without a user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sleipnir.graphs.normal_agent import NormalAgent
from sleipnir.graphs.skills import SkillChoice, choice_of
from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.conversation.escalation import Escalation
from sleipnir.scheduler.runs.conversation.todo import TodoList

_TODO_SECTION = """\
## Todo list

For work of more than a few steps keep a todo list:

- `todo__init`: begin a list with the goal that is reached when all of it is done
- `todo__add`: add one item
- `todo__done`: mark an item as done
- `todo__list`: show the list
- `todo__clear`: empty the list

First write the list, then work on it. Mark each item as soon as it is done, one at a time. If the
request is called off or turns into another one, clear the list at once. If you stop while items are
open, you are reminded of them automatically."""

_PAUSE = """ If you cannot go on before the user does something, call
`todo__pause` with the reason, and end: you are not reminded until their next message."""

_AGENTS_SECTION = """\
## Leading other agents

You can hand work to other agents. Each works in parallel to you, as soon as a worker is free:

| tool | parameters | what it does |
|---|---|---|
| `agent__spawn` | agent, prompt, task_id, variables | start an agent, for a task or not |
| `agent__collect` | id | wait until it is done; returns its result |
| `agent__check` | id | look whether it is done; returns its result if so |
| `agent__list` | | list the agents you have not collected or cancelled |
| `agent__list_available` | | list the agents that you may start, with the variables they take |
| `agent__cancel` | id | cancel it, with all agents of its own |
| `agent__task_create` | subject, description, blocked_by, agent, prompt, variables | queue a task |
| `agent__task_list` | | list the tasks |
| `agent__task_complete`, `agent__task_fail` | task_id | say what became of a task |
| `agent__reply_escalation` | escalation_id, reply | answer a question of an agent |

Spawn, go on with work of your own, then collect. Spawn what does not depend on each other in one
reply, not one after the other. An agent sees nothing but its prompt: put into it all that it needs.
Nothing reports back by itself: collect or cancel every agent before you end. To collect costs
nothing while you wait, so do not check again and again.

For work with an order use the task queue: a task waits for those in blocked_by. One with an agent
and a prompt starts that agent by itself as soon as nothing blocks it; collect the agent, then
complete or fail its task, which starts what waited for it.

A result with pending_escalations means that agents below you wait for an answer, and not for long.
Reply at once from what you know, or ask the user first; then collect again.

The agents:

{{__agents__}}"""

_TEAM_SECTION = """\
## Teammates

Agents that work beside you, those that you have started, and one that has started you can be told
things:

- `agent__send_message` (id, message): put a message into a teammate's inbox; `parent` is the id of
  the agent that has started you
- `agent__check_inbox`: take the messages that others have sent you

Tell a teammate what affects its work. A message is seen only when its receiver looks, so look into
your inbox before you finish."""

_SKILL_SECTION = """\
## Skills

A skill is a set of instructions, and of tools that belong to them, for one kind of work:

- `skill__list`: show the skills there are, and which of them are loaded
- `skill__load`: load one; from your next turn on you have its instructions and its tools
- `skill__unload`: unload one

List the skills before you begin. Load one when it fits what you are to do, and unload it when that
is done."""

_USER_SECTION = """\
## Asking the user

Ask for decisions, preferences, and whatever is unclear, by these tools and not in your answer:

- `user__ask` (question, options): one of several options, or the person's own words; returns
  {"answer": text}
- `user__confirm` (question): yes or no; returns {"answer": "yes"} or {"answer": "no"}
- `user__input` (question): a text; returns {"answer": text}
- `user__checkbox` (question, options): any number of several options; returns {"answers": [text]}

If you work for another agent, your question reaches the people behind it, and you may be told that
no answer came in time."""

_CONTINUATION = """\
[automatic message] Items of your todo list are still open. Check that a result is right before you
mark its item as done. Break a broad item into items of one purpose each with `todo__add` before you
begin it. Now go on with the next open item by calling tools; do not announce it."""


_PENDING = """\
[automatic message] {count} of the agents that you have started are not done: {ids}. If you end now,
they are cancelled and their work is lost. Call `agent__collect` or `agent__cancel` for each of them
now. To say that you will wait is not enough: nothing happens without a call."""

_ASKED = """\
These questions of agents below you are open, each for a limited time. Reply to them first, by
`agent__reply_escalation`:

{questions}"""

_SHORTENING = """\
You shorten what the agent '{agent}' has reported, for the agent that it works for. Keep every piece
of code, path, error message and concrete recommendation as it is. Drop repetition and filler. Take
at most about 30 % of the length. If there is a final answer, it comes first; several findings make
a list. Reply with the shortened report and nothing else."""

SUMMARISE = """\
You are given a conversation between a user and an assistant that calls tools. It is going to be
replaced by a summary of it. Write that summary, without an introduction. Keep: what the user wants
and has decided, what was done and found, names, paths, numbers, code and error texts that are still
needed, and what is left to do. Drop what is settled or was repeated. If a summary of what was said
before stands in front, take over what still matters of it."""

_SUMMARY_INTRODUCTION = "This is a summary of the conversation so far:"


def summary_section(summary: str, todos: TodoList) -> str:
    """Return the section of a prompt that summarises the conversation so far."""
    listed = f"## Todo list as it was\n\n{todos.rendered()}\n\n" if todos.todos else ""
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


def shortening(agent: str) -> str:
    """Return the instructions for shortening an agent's output."""
    return _SHORTENING.format(agent=agent)


def continuation(config: NormalAgent, todos: TodoList) -> str:
    """Return the message to a model that stops while its list has open items."""
    return f"{config.continuation_prompt or _CONTINUATION}\n\n{todos.rendered()}"
