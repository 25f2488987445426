"""Lists of runs, questions and batches: pages by cursor, conditions, counts, search budgets."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from sleipnir.records import dataclass
from sleipnir.scheduler.errors import BadCursor
from sleipnir.scheduler.runs.ids import new_run_id
from sleipnir.scheduler.runs.model import Failure, Lease, RunContext, Status
from sleipnir.scheduler.runs.plan import Plan
from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.parking import wait_for
from sleipnir.scheduler.store.queries import indexes
from sleipnir.scheduler.store.queries.cursors import Position
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.store.queries.indexes import Page
from tests.support.engine import Engine
from tests.support.runs import a_question, a_run, advance, begin, finish, submit

AGENTS = ("draft", "digest", "rare one")
BATCHES = (None, "night", "päivä 2")
LABELS: tuple[Mapping[str, str], ...] = ({}, {"team": "red"}, {"team": "blue", "tier": "1"})


@dataclass(frozen=True, slots=True)
class Made:
    """A run that a test has made."""

    place: Position
    status: str
    agent: str
    batch: str | None
    labels: Mapping[str, str]
    root: str | None = None

    def fits(self, wanted: RunFilter, roots: Mapping[str, Made]) -> bool:
        of_root = roots[self.root] if self.root else self
        return (
            (wanted.children or self.root is None)
            and (not wanted.statuses or self.status in wanted.statuses)
            and (not wanted.agents or self.agent in wanted.agents)
            and (wanted.batch is None or of_root.batch == wanted.batch)
            and all(of_root.labels.get(key) == value for key, value in wanted.labels)
            and (wanted.since_ms is None or self.place.instant >= wanted.since_ms)
            and (wanted.until_ms is None or self.place.instant < wanted.until_ms)
        )


class World:
    """Runs in every status, of some agents and batches, many of them of one instant."""

    def __init__(self, engine: Engine, rng: random.Random) -> None:
        self.engine = engine
        self.rng = rng
        self.made: dict[str, Made] = {}

    def new_id(self, partition: str | None = None) -> str:
        return (
            partition or f"{self.rng.randrange(256):02x}"
        ) + f"{self.rng.randrange(16**14):014x}"

    def add(self) -> str:
        """Bring a run into some status, now and then with a child run."""
        if self.rng.random() < 0.3:
            self.engine.clock.move(self.rng.choice([0.001, 1, 60]))
        run_id, status = self.new_id(), self.rng.choice(sorted(Status))
        fields: dict[str, Any] = {
            "agent": self.rng.choice(AGENTS),
            "batch": self.rng.choice(BATCHES),
            "labels": self.rng.choice(LABELS),
        }
        place = Position(self.engine.clock(), run_id)
        submit(self.engine, run_id, timeout_s=1, **fields)
        self.made[run_id] = Made(place, status, **fields)
        bring_into(self.engine, run_id, status)
        if status == Status.RUNNING and self.rng.random() < 0.5:
            self.add_child(run_id)
        return run_id

    def add_child(self, root: str) -> None:
        child, agent = self.new_id(root[:2]), self.rng.choice(AGENTS)
        place = Position(self.engine.clock(), child)
        add_child(self.engine, root, child, agent=agent)
        self.made[child] = Made(place, Status.QUEUED, agent, None, {}, root)

    def expected(self, wanted: RunFilter) -> list[str]:
        fitting = (made for made in self.made.values() if made.fits(wanted, self.made))
        return [place.name for place in sorted((made.place for made in fitting), reverse=True)]

    def any_filter(self) -> RunFilter:
        rng, instants = self.rng, [made.place.instant for made in self.made.values()]
        return RunFilter(
            statuses=frozenset(rng.sample(sorted(Status), rng.choice([0, 0, 1, 1, 2, 3, 7]))),
            agents=tuple(rng.sample(AGENTS, rng.choice([0, 0, 1, 2]))),
            batch=rng.choice([None, None, *BATCHES]),
            labels=tuple(rng.choice([(), (), *(tuple(labels.items()) for labels in LABELS)])),
            since_ms=rng.choice([None, None, rng.choice(instants)]),
            until_ms=rng.choice([None, None, rng.choice(instants)]),
            children=rng.random() < 0.3,
        )


def bring_into(engine: Engine, run_id: str, status: str) -> None:
    """Have a run that was just submitted, with a limit of 1 s if it is to time out, be so."""
    match status:
        case Status.QUEUED:
            return
        case Status.SUCCEEDED:
            finish(engine, run_id)
            return
        case Status.CANCELLED:
            engine.store.runs.close(run_id, "cancelled", Failure("cancelled", "enough", None))
            return
    lease = begin(engine, "1/s", run_id=run_id)
    match status:
        case Status.FAILED:
            advance(engine, lease, Plan({}, failure=Failure("R013", "it broke", "s")))
        case Status.WAITING:
            engine.store.parking.park(lease, [wait_for(a_question("1/s", run_id))])
        case Status.TIMED_OUT:
            engine.clock.move(1)
            engine.store.runs.close(run_id, "timed_out", Failure("R003", "too long", None))


def add_child(engine: Engine, root: str, child: str, **fields: Any) -> None:
    """Have the running visit of a run's first node go on in a child run."""
    lease = Lease(root, "1/s", "t1")
    context = RunContext(root=root, depth=1)
    new = a_run(child, parent=f"{root} 1/s", context=context, **fields)
    engine.store.parking.spawn(lease, new, 300)


def pages_of(engine: Engine, wanted: RunFilter, limit: int) -> Iterator[Page[Any]]:
    cursor = None
    while True:
        page = engine.queries.list_runs(wanted, limit, cursor)
        yield page
        cursor = page.next
        if cursor is None:
            return


def ids(pages: Sequence[Page[Any]]) -> list[str]:
    return [row.run_id for page in pages for row in page.entries]


# ---- runs


@pytest.fixture(autouse=True)
def time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search ends when it has looked at as much as it may, however busy the machine is."""
    monkeypatch.setattr(indexes, "MOST_SECONDS", 60.0)


@pytest.fixture
def world(engine: Engine) -> World:
    world = World(engine, random.Random(11))
    for _ in range(100):
        world.add()
    return world


def test_pages_and_totals_are_those_of_a_sorted_list(engine: Engine, world: World) -> None:
    for _ in range(60):
        wanted, limit = world.any_filter(), world.rng.choice([7, 20, 200])
        expected = world.expected(wanted)

        pages = list(pages_of(engine, wanted, limit))

        assert ids(pages) == expected, wanted
        assert all(len(page.entries) == limit for page in pages[:-1])
        assert pages[0].entries or pages[0].total == 0
        for page in pages:
            assert page.total in (None, len(expected)), wanted
            assert page.at_most is not None
            assert page.at_most >= len(expected)
            assert page.searched.complete


@pytest.mark.parametrize(
    "wanted",
    [
        RunFilter(),
        *(RunFilter(statuses=frozenset({status})) for status in sorted(Status)),
        RunFilter(agents=("draft",)),
        RunFilter(agents=("draft", "rare one"), statuses=frozenset({Status.SUCCEEDED})),
        RunFilter(agents=("draft",), statuses=frozenset({Status.FAILED, Status.CANCELLED})),
        RunFilter(batch="night"),
        RunFilter(batch="päivä 2", statuses=frozenset({Status.WAITING, Status.SUCCEEDED})),
        RunFilter(labels=(("tier", "1"),)),
        RunFilter(children=True),
    ],
)
def test_a_total_is_counted_by_indexes_and_sums(
    engine: Engine, world: World, wanted: RunFilter
) -> None:
    page = engine.queries.list_runs(wanted, 1)

    told_apart = wanted.statuses.isdisjoint({Status.QUEUED, Status.RUNNING})
    assert page.total == (len(world.expected(wanted)) if told_apart else None)


def test_a_list_is_stable_while_runs_come_and_change(engine: Engine, world: World) -> None:
    there = world.expected(RunFilter())
    seen, cursor = [], None
    while True:
        page = engine.queries.list_runs(RunFilter(), 20, cursor)
        seen += [row.run_id for row in page.entries]
        if page.next is None:
            break
        cursor = page.next
        for _ in range(3):
            world.add()

    assert seen[: len(there)] == there
    assert len(seen) == len(set(seen))


def test_runs_whose_record_is_gone_are_passed_over(engine: Engine, world: World) -> None:
    expected = world.expected(RunFilter())
    gone = set(world.rng.sample(expected, 40))
    engine.redis.delete(*(run_key("run", run_id) for run_id in gone))

    pages = list(pages_of(engine, RunFilter(), 20))

    assert ids(pages) == [run_id for run_id in expected if run_id not in gone]
    assert all(len(page.entries) == 20 for page in pages[:-1])
    engine.redis.flushall()  # nothing removes what is left of them


def test_a_row_tells_what_lists_show(engine: Engine) -> None:
    run_id = "0123456789abcdef"
    submit(engine, run_id, agent="draft", batch="night", item="7", labels={"team": "red"})

    (row,) = engine.queries.list_runs(RunFilter(), 5).entries

    assert (row.run_id, row.agent, row.status) == (run_id, "draft", Status.QUEUED)
    assert (row.batch, row.labels, row.parent) == ("night", {"team": "red"}, None)
    assert (row.frontier, row.created_at, row.machine) == (("s",), engine.clock(), None)


def test_a_search_ends_at_its_budget_and_says_how_far_it_looked(
    engine: Engine, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "MOST_LOOKED_AT", 30)
    wanted = RunFilter(statuses=frozenset({Status.QUEUED, Status.SUCCEEDED}), agents=AGENTS)

    pages = list(pages_of(engine, wanted, 40))

    assert ids(pages) == world.expected(wanted)
    (cut, *_) = [page for page in pages if not page.searched.complete]
    assert cut.next is not None
    assert len(cut.entries) < 40
    assert 30 <= cut.searched.entries - len(cut.entries) <= 30 + 500
    assert cut.searched.back_to in {made.place.instant for made in world.made.values()}


def test_a_cursor_of_another_list_is_refused(engine: Engine) -> None:
    for name in ("a", "b"):
        submit(engine, f"00{name * 14}", batch=name)
    cursor = engine.queries.list_batches(1).next
    assert cursor is not None

    with pytest.raises(BadCursor, match="not a valid cursor for a list of runs"):
        engine.queries.list_runs(RunFilter(), 1, cursor)


# ---- trees


def test_child_runs_beyond_the_first_are_told_in_numbers(engine: Engine) -> None:
    root, started = "00" + "a" * 14, [f"00{number:014x}" for number in range(7)]
    submit(engine, root)
    engine.redis.rpush(run_key("children", root), *started)
    for child in started[:6]:
        submit(engine, child, parent=f"{root} 1/s")
    finish(engine, started[5])

    (found,) = engine.queries.child_rows([root], most=3, counted=3)

    assert [row.run_id for row in found.rows] == started[:3]
    assert [row.parent for row in found.rows] == [root] * 3
    assert found.folded == {"queued": 2, "succeeded": 1}
    assert found.uncounted == 1
    (only_counted,) = engine.queries.child_rows([root], most=0, counted=0)
    assert (only_counted.rows, only_counted.folded) == ((), {})
    assert only_counted.uncounted == 7


# ---- questions


def ask(engine: Engine, run_id: str, *, root: str | None = None, **fields: Any) -> None:
    """Have a run that was just submitted ask."""
    lease = begin(engine, "1/s", run_id=run_id)
    question = a_question("1/s", run_id, root_run_id=root or run_id, **fields)
    engine.store.parking.park(lease, [wait_for(question)])


def test_questions_are_listed_oldest_first_a_page_at_a_time(engine: Engine) -> None:
    rng = random.Random(5)
    asked = []
    for _ in range(30):
        run_id = f"{rng.randrange(16**16):016x}"
        submit(engine, run_id)
        if rng.random() < 0.3:
            engine.clock.move(1)
        ask(engine, run_id)
        asked.append((engine.clock(), run_id))

    seen, cursor = [], None
    while True:
        page = engine.queries.list_questions(7, cursor)
        assert page.total == 30
        seen += [question.run_id for question in page.entries]
        cursor = page.next
        if cursor is None:
            break

    assert seen == [run_id for _, run_id in sorted(asked)]


def test_questions_of_an_agent_or_a_batch(engine: Engine) -> None:
    for number, (agent, batch) in enumerate([("a", None), ("b", "night"), ("a", "night")]):
        run_id = f"{number:016x}"
        submit(engine, run_id, agent=agent, batch=batch)
        ask(engine, run_id, agent=agent)

    def listed(**conditions: Any) -> list[str]:
        found = engine.queries.list_questions(10, **conditions).entries
        return [question.run_id[-1] for question in found]

    assert listed() == ["0", "1", "2"]
    assert listed(agents=("a",)) == ["0", "2"]
    assert listed(agents=("a", "b")) == ["0", "1", "2"]
    assert listed(batch="night") == ["1", "2"]
    assert listed(agents=("a",), batch="night") == ["2"]
    assert listed(batch="day") == []


def test_questions_of_a_tree_are_found_at_any_depth(engine: Engine) -> None:
    root, child, grandchild, other = (f"00{name * 14}" for name in "abcd")
    for run_id, parent in ((root, None), (child, root), (grandchild, child), (other, None)):
        if parent is None:
            submit(engine, run_id)
        else:
            bring_into(engine, parent, Status.RUNNING)
            add_child(engine, parent, run_id)
    ask(engine, grandchild, root=root)
    ask(engine, other)

    for run_id in (root, child, grandchild):
        (question,) = engine.client.open_questions(run_id)
        assert question.run_id == grandchild
    assert engine.client.open_questions("00" + "e" * 14) == []


# ---- batches


def test_batches_are_listed_by_last_activity(engine: Engine) -> None:
    rng = random.Random(3)
    active: dict[str, int] = {}
    for number in range(60):
        engine.clock.move(rng.choice([0.001, 1]))
        name = f"b{rng.randrange(12)}"
        active[name] = engine.clock()
        submit(engine, f"{rng.randrange(16**16):016x}", batch=name, item=str(number))

    seen, cursor = [], None
    while True:
        page = engine.queries.list_batches(5, cursor)
        seen += page.entries
        cursor = page.next
        if cursor is None:
            break

    by_activity = sorted(((at, name) for name, at in active.items()), reverse=True)
    assert [(row.last_activity, row.name) for row in seen] == by_activity
    assert sum(row.open for row in seen) == 60
    assert engine.queries.list_batches(20).searched.entries == len(active)


def test_a_batch_that_is_active_while_it_is_read_is_listed_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(64):
        engine.clock.move(1)
        submit(engine, f"{number:02x}{'a' * 14}", batch=f"b{number % 2}", item=str(number))
    read = engine.queries._ranges

    def read_while_it_runs(*arguments: Any) -> Any:
        found = read(*arguments)
        for number in range(64):
            engine.clock.move(1)
            submit(engine, new_run_id(), batch=f"b{number % 2}", item=str(number))
        return found

    monkeypatch.setattr(engine.queries, "_ranges", read_while_it_runs)

    for limit in (1, 2, 5):
        page = engine.queries.list_batches(limit)
        assert [row.name for row in page.entries] == ["b1", "b0"][:limit]
        assert (page.next is None) == (limit > 1)


def test_a_batch_tells_how_its_runs_stand(engine: Engine) -> None:
    engine.store.batches.announce("night", "tested", 40)
    for number, status in enumerate(sorted(Status)):
        run_id = f"{number * 16:02x}{'a' * 14}"
        submit(engine, run_id, batch="night", timeout_s=1)
        bring_into(engine, run_id, status)

    row, missing = engine.queries.batch_rows(["night", "day"])

    assert missing is None
    assert row is not None
    assert (row.agent, row.lines, row.runs, row.ended) == ("tested", 40, 7, 4)
    assert (row.open, row.waiting, row.succeeded) == (2, 1, 1)
    assert (row.failed, row.cancelled, row.timed_out) == (1, 1, 1)
    assert row.last_activity == engine.clock()


def test_the_runs_of_a_batch_are_read_a_page_at_a_time(engine: Engine) -> None:
    made = [f"{number * 7:016x}" for number in range(25)]
    for run_id in made:
        submit(engine, run_id, batch="night")

    pages = list(engine.queries.batch_pages("night", 10))

    assert [len(page) for page in pages] == [10, 10, 5]
    assert sorted(run_id for page in pages for run_id in page) == sorted(made)
