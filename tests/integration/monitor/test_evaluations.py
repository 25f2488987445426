"""Evaluations by the API and on their pages: what commands have run, scored as they would."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.testing.evaluation import stored
from sleipnir.scheduler.testing.evaluation.file import find_evaluation, read_evaluation
from sleipnir.scheduler.testing.evaluation.rows import read_rows
from sleipnir.scheduler.testing.evaluation.running import by_row, read_runs
from sleipnir.scheduler.testing.evaluation.scoring import JudgeQuestions
from tests.support.engine import Engine
from tests.support.evaluations import EVALUATION, run_rows, table, write_sorter
from tests.support.site import ServedSite

PAGE = "/evaluations/sorter/golden"
API = f"/api/v1{PAGE}"
JUDGE = """
initial_state: {said: null}
start: done
nodes: {done: {type: end, value: "{{said}}"}}
"""


def page_of(site: ServedSite, path: str = PAGE) -> str:
    return " ".join(site.ask(path).text.split())


def test_versions_stand_beside_the_baseline(engine: Engine, site: ServedSite) -> None:
    write_sorter(engine, "one")
    first = run_rows(engine)
    write_sorter(engine, "two")
    second = run_rows(engine)

    found, page = site.ask(API).json, page_of(site)

    assert [(each["name"], each["version"], each["rows"]) for each in found["versions"]] == [
        ("baseline", first.version, 40),
        ("current", second.version, 40),
    ]
    means = [each["checks"]["label"]["mean"] for each in found["versions"]]
    (label, brevity) = found["compared"]
    (differs,) = [each for each in found["differences"] if each["check"] == "label"]
    assert means == [1.0, 0.75]
    assert (label["check"], label["lost"], label["won"], label["verdict"]) == (
        *("label", 10, 0, "lost"),
    )
    assert (brevity["check"], brevity["verdict"]) == ("brevity", None)
    assert (found["passed"], found["losses"]) == (False, ["label of current is lost"])
    assert (differs["same"], differs["bins"][0]) == (30, {"difference": -1.0, "rows": 10})
    assert "The gate is not passed:</b> label of current is lost" in page
    assert "label of current against the baseline: 10 rows lost, 0 won, 30 the same" in page
    assert 'style="' not in page


def test_rows_that_flipped_lead_to_both_runs(engine: Engine, site: ServedSite) -> None:
    write_sorter(engine, "one")
    run_rows(engine)
    write_sorter(engine, "two")
    run_rows(engine)

    found, page = site.ask(API).json, page_of(site)

    flip = found["flips"][0]
    before, after = (engine.run(run_id) for run_id in flip["runs"])
    assert (flip["check"], flip["before"], flip["after"], flip["expected"]) == (
        *("label", 1.0, 0.0, "other"),
    )
    assert (before.value, after.value, after.item) == ("other", "spam", flip["row"])
    assert f"/compare?a={before.run_id}&amp;b={after.run_id}" in page
    assert f"/runs/{after.run_id}" in page


def test_another_version_becomes_the_baseline_by_the_address(
    engine: Engine, site: ServedSite
) -> None:
    write_sorter(engine, "one")
    run_rows(engine)
    write_sorter(engine, "two")
    second = run_rows(engine)

    found = site.ask(f"{API}?baseline={second.version[:6]}").json

    assert [each["name"] for each in found["versions"]] == [
        "baseline",
        found["stored"][1]["version"],
    ]
    assert found["versions"][0]["version"] == second.version
    assert found["compared"][0]["verdict"] == "kept"


def test_what_judges_said_counts_and_what_is_open_does_not(
    engine: Engine, site: ServedSite
) -> None:
    checks = "  - {name: kind, judge: kindness}\ngate:"
    write_sorter(engine, "one", evaluation=EVALUATION.replace("gate:", checks))
    engine.write("kindness", JUDGE)
    batch = run_rows(engine)
    judged = f"{batch.name}:kind:{'a' * 12}"
    listed = site.ask(f"/api/v1/runs?batch={batch.name}&limit=50").json["runs"]
    of_rows = {each["item"]: each["run_id"] for each in listed}
    evaluation, _ = read_evaluation(find_evaluation(engine.client.search.find("sorter"), "golden"))
    assert evaluation is not None
    rows = read_rows(evaluation)
    runs = by_row(rows, 1, read_runs(engine.client, batch.name))
    asked = JudgeQuestions.about("kind", rows, runs).asked
    ids = {row: asked[run_id].id for row, run_id in of_rows.items()}
    for row, said in (("r2", True), ("r3", {"score": 0.5}), ("r4", "nice")):
        state = {"said": said}
        engine.submit_agent("kindness", JUDGE, batch=judged, item=ids[row], state=state)
    # What was asked when the row had something else in it counts no more.
    engine.submit_agent(
        "kindness", JUDGE, batch=judged, item=f"{of_rows['r5']}-00000000", state={"said": True}
    )
    engine.drive()
    engine.clock.move(1)
    engine.submit_agent("other", JUDGE, batch=batch.name, item="r1")

    found = site.ask(API).json

    (version,) = found["versions"]
    kind = version["checks"]["kind"]
    assert (version["rows"], found["stored"][0]["open"]) == (39, 1)
    assert (kind["mean"], kind["n"], kind["unjudged"]) == (0.75, 2, 37)


def test_what_cannot_be_scored_says_why(engine: Engine, site: ServedSite) -> None:
    directory = write_sorter(engine, "one")
    batch = run_rows(engine)
    file = directory / "evals" / "golden.yaml"
    given = file.read_text()
    problems = []
    for text in (given.replace("row.expected", "row.exp"), "rows: none.csv\nchecks: []\n", None):
        if text is None:
            file.unlink()
        else:
            file.write_text(text)
        problems.append(site.ask(API).json["problem"])
    file.write_text(given)
    (directory / "evals" / "golden.csv").write_text(table(3))
    other_rows = site.ask(API).json

    assert "check 'label' of row 'r0'" in problems[0]
    assert "'checks' is empty" in problems[1]
    assert "its file is not found here" in problems[2]
    assert "other rows were run" in other_rows["problem"]
    assert [each["batch"] for each in other_rows["stored"]] == [batch.name]
    assert site.ask("/api/v1/evaluations/sorter/none").status == 404
    assert site.ask("/api/v1/evaluations/..%2Fsorter/golden").status == 404


def test_a_page_scores_so_many_runs(
    engine: Engine, site: ServedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sorter(engine, "one", table(5))
    run_rows(engine)
    write_sorter(engine, "two", table(5))
    run_rows(engine)

    both = site.ask(API).json
    monkeypatch.setattr(stored, "_MOST_RUNS", 9)
    fewer = site.ask(API).json
    monkeypatch.setattr(stored, "_MOST_RUNS", 4)
    none = site.ask(API).json

    assert (len(both["versions"]), len(fewer["versions"])) == (2, 1)
    assert "5 runs are more than a page scores, 4" in none["problem"]


def test_evaluations_are_listed_and_found(engine: Engine, site: ServedSite) -> None:
    write_sorter(engine, "one", table(3))
    engine.write("other", JUDGE, {"evals/never.yaml": EVALUATION})
    batch = run_rows(engine)

    listed = site.ask("/api/v1/evaluations").json["evaluations"]
    of_agent = site.ask("/api/v1/evaluations?agent=other").json["evaluations"]
    found = site.ask("/api/v1/find?q=golden").json["found"]

    assert [(each["agent"], each["eval"], each["versions"], each["runs"]) for each in listed] == [
        ("sorter", "golden", 1, 3),
        ("other", "never", 0, 0),
    ]
    assert [each["eval"] for each in of_agent] == ["never"]
    assert {each["kind"]: each["path"] for each in found} == {"evaluation": PAGE}
    assert PAGE in page_of(site, f"/batches/{batch.name.replace('/', '%2F')}")
    assert PAGE in page_of(site, "/agents/sorter?tab=evaluations")
    assert "never run" in page_of(site, "/evaluations")
