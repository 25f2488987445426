"""Runs some lines of an input as lines of its batch, which a later `batch` finds finished."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from sleipnir.records import dataclass
from sleipnir.scheduler.batch.drive import Batch
from sleipnir.scheduler.batch.ledger import Item, Ledger
from sleipnir.scheduler.batch.lines import Line, input_of
from sleipnir.scheduler.batch.options import BatchOptions, Progress
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.runs.submit import Request
from sleipnir.worker.plan.estimate import draw
from sleipnir.worker.plan.sample import LineSample, read_sample


@dataclass(frozen=True, slots=True)
class Sampling:
    """How lines are drawn, and the batch that they are lines of."""

    client: Client
    agent: PreparedAgent
    batch: str
    defaults: Request
    count: int
    seed: int
    on_progress: Callable[[Progress], None]

    def take(self, ledger: Ledger, strata: Sequence[Sequence[int]]) -> LineSample:
        """Run the lines that are drawn and have not finished; return what all finished ones did.

        Args:
            ledger: all lines of the input.
            strata: their numbers.
        """
        chosen = set(draw(strata, self.count, self.seed))
        numbers: dict[str, int] = {}
        with Ledger() as drawn:
            last = 0
            while page := ledger.following(last):
                last = page[-1].number
                for item in page:
                    numbers[item.item] = item.number
                    if item.number in chosen:
                        drawn.add(_line_of(item))
            self._run(drawn, ledger)
        return read_sample(self.client, self.batch, self.agent, numbers, self.seed)

    def _run(self, drawn: Ledger, whole: Ledger) -> None:
        options = BatchOptions(
            name=self.batch,
            max_in_flight=sys.maxsize,
            defaults=self.defaults,
            lines=len(whole),
            files=whole.files,
        )
        batch = Batch(self.client, self.agent, drawn, options, on_progress=self.on_progress)
        for _ in batch.results():
            pass


def _line_of(item: Item) -> Line:
    """Return a line with the id that it has in the whole input."""
    given: Mapping[str, object] = input_of(item.content)
    fields = {("variables" if name == "vars" else name): value for name, value in given.items()}
    return Line(item.number, id=item.item, **fields)  # type: ignore[arg-type]
