"""What a failed run's page says first."""

from __future__ import annotations

from tests.support.engine import Engine
from tests.support.site import ServedSite

PRINTING = """
settings: {tolerate_failures: false}
initial_state: {pages: [1, 2, 3, 4, 5, 6]}
start: each
nodes:
  each: {type: map, over: "{{pages}}", as: page, branch: look, collect_into: got,
         on_error: collect, next: print}
  look: {type: script, script: look.sh}
  print: {type: script, script: print.sh, next: z}
  z: {type: end}
"""
FILES = {
    "look.sh": "echo \"no <ink> for '$RANDOM'\" >&2; exit 1",
    "print.sh": """
        for n in $(seq 30); do echo "line <$n>" >&2; done
        echo '{"_next": "nowhere"}'
    """,
}


def test_the_log_and_like_failures_stand_at_the_top(engine: Engine, site: ServedSite) -> None:
    for _ in range(2):
        engine.finish(PRINTING, FILES)
    run = engine.finish(PRINTING, FILES)

    page = site.ask(f"/runs/{run.run_id}/events").text

    head = page[page.index("<main") : page.index('class="tabs"')]
    assert "line &lt;11&gt;\nline &lt;12&gt;" in head
    assert "line &lt;10&gt;" not in head
    assert "The same in 3 runs" in head
    assert head.partition('class="outlived"')[2].count("<li>") == 1
    assert "each[0] and 5 more, step 1: R011: exit code 1: no &lt;ink&gt;" in head
    assert f'href="/runs/{run.run_id}/logs?node=print"' in head


def test_children_that_failed_come_first(engine: Engine, site: ServedSite) -> None:
    child = """
    settings: {tolerate_failures: false}
    start: s
    nodes: {s: {type: script, script: s.sh, next: z}, z: {type: end}}
    """
    engine.write(
        "child", child, {"s.sh": "case $GRAPH_STATE in *'no. 2'*) exit 7;; esac; echo '{}'"}
    )
    graph = """
    initial_state: {numbers: [0, 1, 2, 3]}
    start: each
    nodes:
      each: {type: map, over: "{{numbers}}", as: n, branch: go, collect_into: got,
             on_error: collect, next: z}
      go: {type: agent, agent: child, prompt: "no. {{n}}"}
      z: {type: end}
    """
    run = engine.finish(graph)

    children = site.ask(f"/api/v1/runs/{run.run_id}/children").json["children"]
    page = site.ask(f"/runs/{run.run_id}/children").text

    assert [child["status"] for child in children] == ["failed", *3 * ["succeeded"]]
    assert children[0]["error"]["node"] == "s"
    assert f'<a class="reason" href="/runs/{children[0]["run_id"]}?node=s">R013 at s' in page


def test_the_deepest_child_that_failed_is_named(engine: Engine, site: ServedSite) -> None:
    calls = """
    settings: {{tolerate_failures: false}}
    start: go
    nodes:
      go: {{type: agent, agent: {below}, prompt: go, next: z}}
      z: {{type: end}}
    """
    leaf = """
    settings: {tolerate_failures: false}
    start: s
    nodes: {s: {type: script, script: s.sh, next: z}, z: {type: end}}
    """
    engine.write("leaf", leaf, {"s.sh": "exit 7"})
    engine.write("middle", calls.format(below="leaf"))
    run = engine.finish(calls.format(below="middle"))
    (child,) = engine.queries.children(run.run_id)
    (deepest,) = engine.queries.children(child.run_id)

    page = site.ask(f"/runs/{run.run_id}").text
    (listed,) = site.ask("/api/v1/runs").json["runs"]

    assert listed["child_runs"] == 1
    assert f'<a href="/runs/{run.run_id}/children">1</a>' in site.ask("/runs").text
    assert f'Child run <a href="/runs/{deepest.run_id}">' in page
    assert "exit code 7" in page
    (listed,) = site.ask(f"/api/v1/runs/{run.run_id}/children").json["children"]
    assert [each["run_id"] for each in listed["children"]] == [deepest.run_id]
    tree = site.ask(f"/runs/{run.run_id}/children").text
    assert tree.index(f'href="/runs/{child.run_id}"') < tree.index(
        f'<span class="unseen">level 2</span><a href="/runs/{deepest.run_id}"'
    )


def test_a_long_list_of_children_is_folded(engine: Engine, site: ServedSite) -> None:
    engine.write("child", "start: z\nnodes: {z: {type: end}}")
    graph = f"""
    initial_state: {{numbers: {list(range(52))}}}
    start: each
    nodes:
      each: {{type: map, over: "{{{{numbers}}}}", as: n, branch: go, collect_into: got, next: z}}
      go: {{type: agent, agent: child, prompt: go}}
      z: {{type: end}}
    """
    base = f"/runs/{engine.finish(graph).run_id}/children"

    folded, whole = site.ask(base).text, site.ask(f"{base}?all=1").text

    rows = [page.count("data-copied=") for page in (folded, whole)]
    assert (rows[1] - rows[0], "Show all 52" in folded, "Show all" in whole) == (2, True, False)
