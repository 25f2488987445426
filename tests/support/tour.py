"""An agent that uses all parts of a visit, and the expected result of its run.

Twice: a script; then, in a step with a window, a map over a chain with a window of its own, a child
run that asks a person, and a script; then a question; then a script that chooses the next node.
"""

from __future__ import annotations

from pathlib import Path

from sleipnir.scheduler.runs.model import Failure
from tests.support.agents import Agents

GRAPH = """
settings: {max_concurrency: 2, timeout: 1000000}
reducers: {trail: append}
start: begin
nodes:
  begin: {type: script, script: begin.sh, next: [child, each, side]}
  child: {type: agent, agent: asks, prompt: p, timeout: 1000000, next: join,
          state_updates: {trail: "{{output}}"}}
  each: {type: map, over: "{{items}}", as: item, branch: one, collect_into: found,
         max_concurrency: 2, next: join}
  one: {type: script, script: one.sh, next: two}
  two: {type: script, script: two.sh, state_updates: {output: "{{place}}"}}
  side: {type: script, script: side.sh, next: join, state_updates: {trail: side}}
  join: {type: input, question: "again?", next: turn, state_updates: {trail: "{{input}}"}}
  turn: {type: script, script: turn.sh}
  end: {type: end, output: "{{trail}} {{found}}"}
"""
ASKS = """
start: ask
nodes:
  ask: {type: input, question: "well?", next: end, state_updates: {said: "{{input}}"}}
  end: {type: end, output: "{{said}}"}
"""
# Each try of a script writes down its key, which is the same for all tries of its visit.
_NOTE = 'echo "$SLEIPNIR_IDEMPOTENCY_KEY" >> effects\n'
SCRIPTS = {
    "begin.sh": _NOTE + """echo '{"items": [1, 2, 3]}'""",
    "one.sh": _NOTE + """echo "{\\"place\\": ${SLEIPNIR_IDEMPOTENCY_KEY##*/}}" """,
    "two.sh": _NOTE + "echo '{}'",
    "side.sh": _NOTE + "echo '{}'",
    "turn.sh": _NOTE
    + """case "$GRAPH_STATE" in *again*again*) n=end;; *) n=begin;; esac
    echo "{\\"_next\\": \\"$n\\"}" """,
}
ANSWERS = {"ask": "said", "join": "again"}

OUTPUT = '["said","side","again","said","side","again"] [0,1,2]'
VISITS = {"begin": 2, "child": 2, "each": 2, "side": 2, "join": 2, "turn": 2, "end": 1}
SCRIPT_VISITS = sorted(
    visit
    for step in (1, 5)
    for visit in (
        *(f"{step}/begin", f"{step + 1}/side", f"{step + 3}/turn"),
        *(f"{step + 1}/each/{index}{at}" for index in range(3) for at in ("", "/two/1")),
    )
)


class Tour:
    """One run of the agent."""

    def __init__(self, agents: Agents, workdir: Path) -> None:
        workdir.mkdir()
        agents.write("asks", ASKS)
        self._agents = agents
        self._effects = workdir / "effects"
        self.run_id = agents.submit(GRAPH, SCRIPTS, workdir=str(workdir))

    def use(self, agents: Agents) -> None:
        """Switch to another engine that has the run."""
        self._agents = agents

    def is_over(self) -> bool:
        return self._agents.run(self.run_id).is_final

    def answer(self) -> None:
        """Answer the run's questions, if it has any."""
        for question in self._agents.inbox():
            self._agents.client.answer(question.run_id, ANSWERS[question.node])

    def cancel(self) -> None:
        """Cancel the run if it has not ended."""
        failure = Failure("cancelled", "enough", None)
        self._agents.store.runs.close(self.run_id, "cancelled", failure)

    def check(self) -> None:
        """Check that the result is that of a run without faults."""
        run = self._agents.run(self.run_id)
        assert (run.output, run.failure) == (OUTPUT, None)
        assert run.visits == VISITS
        tries = self._effects.read_text().split()
        assert sorted(set(tries)) == [f"{self.run_id}:{visit}" for visit in SCRIPT_VISITS]
