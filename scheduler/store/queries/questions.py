"""Queries of open questions."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

from sleipnir.scheduler.runs.consent import GUARD
from sleipnir.scheduler.runs.ids import VisitId, partition_of
from sleipnir.scheduler.runs.model import FINAL, QUESTION, GuardedCall, Question, Run, RunRow
from sleipnir.scheduler.store.keys import opened_key, run_key
from sleipnir.scheduler.store.queries.cursors import Position
from sleipnir.scheduler.store.queries.indexes import (
    IndexQueries,
    Page,
    Span,
    find_page,
    position_of,
)
from sleipnir.scheduler.store.queries.reads import Reads

# Call ids of waits of graph nodes, which are not calls of a model.
_OF_NODES = frozenset({QUESTION, "child", "map", "timer"})


class QuestionQueries(IndexQueries):
    """Queries of open questions, and of other things that runs wait for."""

    def questions(self, run_id: str) -> list[Question]:
        """Return the open questions of one run, oldest first."""
        return self._carry_out(questions_of(run_id))

    def questions_of_tree(self, run_id: str) -> list[Question]:
        """Return the open questions of a run and of all its child runs, oldest first."""
        return self._carry_out(questions_of_tree(run_id))

    def open_calls(self, rows: Sequence[Run | RunRow]) -> dict[str, list[str]]:
        """Return the models' calls that runs wait for, by run id, in one round trip.

        Not those of models themselves that wait for batches of providers.
        """
        open_rows = [row for row in rows if not row.is_final and len(row.frontier) == 1]
        with self._redis.pipeline(transaction=False) as pipe:
            for row in open_rows:
                pipe.hgetall(run_key("waits", f"{row.run_id} {row.step}/{row.frontier[0]}"))
            found = {
                row.run_id: sorted(call for call, text in waits.items() if _is_of_call(call, text))
                for row, waits in zip(open_rows, pipe.execute(), strict=True)
            }
        return {run_id: calls for run_id, calls in found.items() if calls}

    def count_questions(self) -> int:
        """Return the number of open questions."""
        return self._count(["inbox"], Span())

    def waited_s(self, question: Question) -> float:
        """Return the seconds since a question was asked."""
        return (self.now_ms() - question.asked_at) / 1000

    def opened_by(self, user: str, questions: Sequence[Question]) -> set[str]:
        """Return the ids of those questions that a person has opened."""
        ids = [question.question_id for question in questions]
        if not ids:
            return set()
        opened_at: list[float | None] = self._redis.zmscore(opened_key(user), ids)
        return {each for each, at in zip(ids, opened_at, strict=True) if at is not None}

    def list_questions(
        self,
        limit: int,
        cursor: str | None = None,
        *,
        agents: Sequence[str] = (),
        batch: str | None = None,
        node: str | None = None,
        text: str | None = None,
        until_ms: int | None = None,
    ) -> Page[Question]:
        """Return open questions, oldest first, of all runs or of some agents' or a batch's.

        Args:
            node: only questions of this node.
            text: only questions that contain it, ignoring case.
            until_ms: only questions asked before this instant.

        Raises:
            BadCursor: the cursor does not belong to a list of questions.
        """
        after = position_of("questions", cursor)
        span = Span(until=until_ms, newest_first=False)
        part = None if text is None else text.casefold()

        def choose(entries: Sequence[Position]) -> list[Question | None]:
            questions = self._read_questions(entries)
            batches = self._batches_of_roots(questions) if batch is not None else {}
            return [
                question
                if question is not None
                and (not agents or question.agent in agents)
                and (batch is None or batches[question.root_run_id] == batch)
                and (node is None or question.node == node)
                and (part is None or part in question.text.casefold())
                else None
                for question in questions
            ]

        found = find_page("questions", self._merged(["inbox"], span, after), limit, choose)
        at_most = self._count(["inbox"], span)
        is_all = not agents and batch is None and node is None and text is None
        total = at_most if is_all else None
        if cursor is None and found.next is None:
            total = len(found.entries)
        in_order = sorted(found.entries, key=lambda question: question.asked)
        return Page(tuple(in_order), found.next, found.searched, total, at_most)

    def _read_questions(self, entries: Sequence[Position]) -> list[Question | None]:
        """Return the questions of inbox entries; None for those answered meanwhile."""
        names = [entry.name.partition(" ") for entry in entries]
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id, _, visit in names:
                pipe.hget(run_key("questions", run_id), visit)
            texts = pipe.execute()
        return [
            None if text is None else _question(run_id, visit, text, entry.instant)
            for entry, (run_id, _, visit), text in zip(entries, names, texts, strict=True)
        ]

    def origins(self, run_ids: Sequence[str]) -> dict[str, tuple[str | None, str | None]]:
        """Return batch and item of runs, by run id."""
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hmget(run_key("run", run_id), "batch", "item")
            found = pipe.execute()
        return {run_id: (batch, item) for run_id, (batch, item) in zip(run_ids, found, strict=True)}

    def _batches_of_roots(self, questions: Sequence[Question | None]) -> dict[str, str | None]:
        roots = sorted({question.root_run_id for question in questions if question is not None})
        return {run_id: batch for run_id, (batch, _) in self.origins(roots).items()}


def _is_of_call(call: str, text: str) -> bool:
    """Return whether a row of `waits` (lua/lib/waiting.lua) is an open one of a model's call."""
    is_of_node = call in _OF_NODES or call.startswith(GUARD)
    kind, state = text.split(" ", 2)[:2]
    return not is_of_node and kind != "batch" and state == "open"


def questions_of(run_id: str) -> Reads[list[Question]]:
    """Read the open questions of one run, oldest first."""
    (found,) = yield [("HGETALL", run_key("questions", run_id))]
    inbox, visits = f"{partition_of(run_id)}:inbox", sorted(found)
    asked = (yield [("ZSCORE", inbox, f"{run_id} {visit}") for visit in visits]) if visits else []
    questions = [
        _question(run_id, visit, found[visit], int(at or 0))
        for visit, at in zip(visits, asked, strict=True)
    ]
    return sorted(questions, key=lambda question: question.asked)


def questions_of_tree(run_id: str) -> Reads[list[Question]]:
    """Read the open questions of a run and of all its child runs, oldest first."""
    found: list[Question] = []
    level = [run_id]
    while level:
        asks = yield [("EXISTS", run_key("questions", each)) for each in level]
        for each in itertools.compress(level, asks):
            found += yield from questions_of(each)
        level = yield from _open_children(level)
    return sorted(found, key=lambda question: question.asked)


def _open_children(run_ids: Sequence[str]) -> Reads[list[str]]:
    """Return the children that have not ended; no others can have open questions below them."""
    lists = yield [("LRANGE", run_key("children", run_id), 0, -1) for run_id in run_ids]
    children = list(itertools.chain.from_iterable(lists))
    if not children:
        return []
    statuses = yield [("HGET", run_key("run", child), "status") for child in children]
    return [
        child
        for child, status in zip(children, statuses, strict=True)
        if status is not None and status not in FINAL
    ]


def _question(run_id: str, name: str, text: str, asked_at: int) -> Question:
    """Return a question; its name is `<visit>`, or `<visit> <call>` if there may be several."""
    fields, (visit, _, call) = json.loads(text), name.partition(" ")
    if "guarded_call" in fields:
        fields["guarded_call"] = GuardedCall(**fields["guarded_call"])
    return Question(
        run_id=run_id,
        visit=VisitId(visit),
        call=call or QUESTION,
        asked_at=asked_at,
        **{**fields, "options": tuple(fields["options"])},
    )
