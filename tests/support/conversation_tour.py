"""A normal agent that uses all parts of a turn, and the expected result of its run.

It makes a todo list and calls a tool; asks two questions at once; creates two tasks, of which the
second starts a child when the first is done. The child calls a tool and asks its parent, whose
model answers and sends a message, which the child reads before it is collected.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.agents import Agents
from tests.support.conversations import converses
from tests.support.model_server import ModelServer, Reply, Request, calls, says
from tests.support.supervising import collects_all

LEADER = """
model: openai:m
instructions: You lead.
auto_continue: true
max_auto_continues: 0
can_spawn_agents: true
"""
WORKER = "instructions: You work.\n"
# Each try of a call writes down its key, which is the same for all tries.
TOOLS = '''
import os


def note(text: str) -> str:
    """Write something down.

    Args:
        text: What to write.
    """
    with open("effects", "a") as file:
        file.write(f"{os.environ['SLEIPNIR_IDEMPOTENCY_KEY']} {text}\\n")
    return f"noted {text}"
'''
ANSWERS = {"user__ask": "tea", "user__confirm": "yes"}
TODOS = [{"id": 1, "desc": "boil", "done": True}, {"id": 2, "desc": "pour", "done": False}]
SECOND = {"subject": "do", "blocked_by": ["task_1"], "agent": "worker", "prompt": "Work."}
TURNS, TURNS_OF_THE_CHILD = 10, 3


def script(server: ModelServer) -> None:
    """Script the replies of models in all tours."""
    converses(
        server,
        "Lead.",
        calls(("todo__init", {"goal": "tea"}), ("todo__add", {"task": "boil"})),
        calls(("todo__add", {"task": "pour"}), ("note", {"text": "a"})),
        calls(
            ("user__ask", {"question": "What?", "options": ["tea"]}),
            ("user__confirm", {"question": "Now?"}),
        ),
        calls(("agent__task_create", {"subject": "plan"}), ("agent__task_create", SECOND)),
        calls(("agent__task_complete", {"task_id": "task_1"})),
        collects_all,
        _replies,
        collects_all,
        calls(("todo__done", {"id": 1}), ("agent__task_complete", {"task_id": "task_2"})),
        says("Served."),
    )
    converses(
        server,
        "Work.",
        calls(("note", {"text": "b"}), ("user__input", {"question": "How?"})),
        calls(("agent__check_inbox", {})),
        says("Poured."),
    )


def _replies(request: Request) -> Reply:
    """Return a message to the child and the answer to its question, by ids from the results."""
    told = json.loads(request.messages[-1]["content"])
    (asked,) = told["pending_escalations"]
    answer = {"escalation_id": asked["escalation_id"], "reply": "with milk"}
    message = {"id": asked["from_agent_id"], "message": "Mind the cup."}
    return calls(("agent__send_message", message), ("agent__reply_escalation", answer))


class ConversationTour:
    """One run of the agent, with its child."""

    def __init__(self, agents: Agents, workdir: Path) -> None:
        workdir.mkdir()
        self._agents = agents
        self._effects = workdir / "effects"
        agents.write_normal("worker", WORKER, {"tools.py": TOOLS})
        files = {"tools.py": TOOLS}
        self.run_id = agents.submit_normal(LEADER, files, prompt="Lead.", workdir=str(workdir))

    def is_over(self) -> bool:
        return self._agents.run(self.run_id).is_final

    def answer(self) -> None:
        """Answer the run's question, if it has one."""
        for question in self._agents.inbox():
            if question.run_id != self.run_id:  # the child's, which its parent's model answers
                continue
            self._agents.client.answer(question.run_id, ANSWERS[question.node], node=question.place)

    def check(self) -> None:
        """Check that the result is that of a run without faults."""
        run = self._agents.run(self.run_id)
        assert (run.output, run.failure) == ("Served.", None)
        state = self._agents.state(self.run_id)
        assert state["todos"]["todos"] == TODOS
        turns = [state[f"turn {number}"] for number in range(1, TURNS + 1)]
        told = [json.loads(m["content"]) for turn in turns for m in turn if m["role"] == "tool"]
        _, boil, pour, noted, asked, confirmed, *led, _, completed = told
        _, planned, dispatched, waiting, sent, replied, collected = led
        assert (boil["id"], pour["id"], noted) == (1, 2, {"output": "noted a"})
        assert (asked, confirmed) == ({"answer": "tea"}, {"answer": "yes"})
        assert (waiting["status"], sent["status"], replied["status"]) == ("pending", "ok", "ok")
        (started,) = dispatched["auto_dispatched"]
        assert (started["task_id"], planned["task_id"]) == ("task_2", "task_2")
        assert (collected["id"], collected["output"]) == (started["id"], "Poured.")
        assert completed["status"] == "ok"
        assert [task["status"] for task in state["tasks"]] == ["completed", "completed"]
        (child,) = self._agents.queries.children(self.run_id)
        assert child.output == "Poured."
        *_, inbox = (m for m in self._agents.state(child.run_id)["turn 2"] if m["role"] == "tool")
        messages = json.loads(inbox["content"])["messages"]
        assert [each["payload"]["content"] for each in messages] == ["Mind the cup."]
        tries = dict(map(str.split, self._effects.read_text().splitlines()))
        assert sorted(tries.values()) == ["a", "b"]
        assert {key.split(":")[0] for key in tries} == {self.run_id, child.run_id}
