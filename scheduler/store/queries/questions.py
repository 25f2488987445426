"""What people are asked."""

from __future__ import annotations

import json

from sleipnir.scheduler.runs.model import Question
from sleipnir.scheduler.store.keys import ALL_PARTITIONS, partition_of, run_key
from sleipnir.scheduler.store.queries.base import Queries


class QuestionQueries(Queries):
    """Reads of open questions."""

    def questions(self, run_id: str) -> list[Question]:
        """The open questions of one run, by visit."""
        found = self._redis.hgetall(run_key("questions", run_id))
        partition = partition_of(run_id)
        with self._redis.pipeline(transaction=False) as pipe:
            for visit in sorted(found):
                pipe.zscore(f"{partition}:inbox", f"{run_id} {visit}")
            asked = pipe.execute()
        return [
            _question(run_id, visit, found[visit], int(at or 0))
            for visit, at in zip(sorted(found), asked, strict=True)
        ]

    def inbox(self) -> list[Question]:
        """Every open question, oldest first."""
        with self._redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.zrange(f"{partition}:inbox", 0, -1, withscores=True)
            asked = [
                (*member.split(" ", 1), int(at))
                for members in pipe.execute()
                for member, at in members
            ]
            for run_id, visit, _ in asked:
                pipe.hget(run_key("questions", run_id), visit)
            questions = [
                _question(run_id, visit, text, at)
                for (run_id, visit, at), text in zip(asked, pipe.execute(), strict=True)
                if text is not None
            ]
        return sorted(questions, key=lambda question: (question.asked_at, question.question_id))


def _question(run_id: str, visit: str, text: str, asked_at: int) -> Question:
    fields = json.loads(text)
    return Question(
        run_id=run_id,
        visit=visit,
        asked_at=asked_at,
        **{**fields, "options": tuple(fields["options"])},
    )
