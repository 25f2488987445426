"""From a failed item of a map to the model call behind it, and what that cost."""

from __future__ import annotations

import re
from textwrap import dedent
from xml.etree import ElementTree

from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.views.grouping import OneFailure, grouped
from sleipnir.worker.monitor.charts.wall import wall_svg
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, says
from tests.support.site import ServedSite

MAP = """
model: openai:gpt-4o-mini
initial_state: {words: [sun, moon, "star <1>", sky]}
start: each
nodes:
  each:
    {type: map, over: "{{words}}", as: word, branch: ask, collect_into: found, on_error: collect,
     next: z}
  ask: {type: llm, prompt: "Tell of {{word}}.", max_attempts: 1}
  z: {type: end}
"""
VALUES = ["sun", "moon", "star &lt;1&gt;", "sky"]


def test_a_failed_item_leads_to_its_model_call(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    server.when("star", says(""))
    server.script.add(says("It is <b>bright</b>."), says("It is round."), says("It is wide."))
    run = engine.finish(MAP)
    base = f"/runs/{run.run_id}"

    graph = site.ask(f"{base}?node=each").text
    failed = site.ask(f"{base}/items/1/each?state=failed").text
    items = site.ask(f"/api/v1{base}/items/1/each").json
    call = site.ask(f"{base}/model?node=ask&item=2").text
    model = site.ask(f"/api/v1{base}/model").json

    assert f'href="{base}/items?map=each" aria-label="Items of each: 4 of 4 done"' in graph
    assert "4/4 ✕1" in graph
    assert '<a class="skip" href="#graph">Skip to Graph</a>' in graph
    assert '<a class="skip" href="#part">Skip to Items</a>' in failed
    assert items["counts"] == {"done": 3, "failed": 1, "open": 0, "left_out": 0}
    assert (items["states"], [item["index"] for item in items["items"]]) == ("ddfd", [0, 1, 2, 3])
    assert [group["first"] for group in items["failures"]] == [2]
    row = failed.partition('class="whole-row"')[2].partition("</tr>")[0]
    assert 'item=2#items"' in row
    assert "star &lt;1&gt;" in row
    assert 'class="whole-row"' not in failed.partition("</tr>")[2].partition("</tr>")[2]
    panel = site.ask(f"{base}/items/1/each?item=2").text.partition("<aside")[2]
    assert panel.index("produced no output") < panel.index("Tell of star &lt;1&gt;.")
    assert f'href="{base}/model?node=ask&amp;item=2&amp;step=1"' in panel
    cause = items["failures"][0]["cause"]
    assert f"cause={cause}#items" in failed
    alike = site.ask(f"/api/v1{base}/items/1/each?cause={cause}&item=2").json
    assert [item["index"] for item in alike["items"]] == [2]
    assert (alike["chosen"]["known"]["value"], alike["chosen"]["item"]["state"]) == (
        "star <1>",
        "failed",
    )
    assert site.ask(f"/api/v1{base}/items/1/each?cause=other").json["items"] == []
    assert "Tell of star &lt;1&gt;." in call
    assert "It is round" not in call
    assert ">1 call, " in call
    assert (model["sums"][0]["node"], model["sums"][0]["calls"]) == ("ask", 4)
    assert "It is &lt;b&gt;bright" in site.ask(f"{base}/model").text
    assert "- {&quot;text&quot;: &quot;It is &lt;b&gt;bright" in site.ask(f"{base}/model").text
    assert site.ask(f"{base}/items/1/nothing").status == 404
    assert site.ask(f"/api/v1{base}/items/1/nothing").status == 404
    assert site.ask(f"/api/v1{base}/items/1/each?state=happy").status == 400


def test_an_item_is_shown_with_its_value_and_its_result(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    server.when("star", says(""))
    server.script.add(says("It is <b>bright</b>."), says("It is round."), says("It is wide."))
    run_id = engine.submit(MAP)
    base = f"/runs/{run_id}/items/1/each"
    engine.work_once()  # the map
    engine.work_once()  # its first item

    ended, begun = (item_part(site.ask(f"{base}?item={index}").text) for index in (0, 1))

    table = site.ask(base).text

    assert ended == ["sun", "It is &lt;b&gt;bright&lt;/b&gt;."]
    assert re.findall(r'<td [^>]*class="text">([^<]+)</td>', table) == VALUES
    assert begun == ["moon", "None: the item has not ended."]

    engine.drive()
    page = site.ask(f"{base}?item=0").text
    failed, last = (item_part(site.ask(f"{base}?item={index}").text) for index in (2, 3))

    assert re.findall(r'<td [^>]*class="text">([^<]+)</td>', page)[:2] == VALUES[:2]
    assert page.index("Why items failed") < page.index('class="wall"') < page.index("<table")
    assert '?state=failed&amp;after=1&amp;item=2#items">item' in page
    assert item_part(page) == ended
    assert 'href="?item=0#items" aria-current="true">0</a>' in page
    assert failed[0] == "star &lt;1&gt;"
    assert "&quot;error&quot;" in failed[1]
    assert last == ["sky", "It is wide."]
    assert "no item 4; the last one is 3" in (refused := site.ask(f"{base}?item=4")).text
    assert refused.status == 404


def test_of_a_long_item_the_beginning_is_shown_without_secrets(
    engine: Engine, site: ServedSite
) -> None:
    graph = """
    variables: [{name: token, description: a secret, secret: true}]
    reducers: {found: extend}
    initial_state: {words: [], found: []}
    start: each
    nodes:
      each: {type: map, over: "{{words}}", as: word, branch: one, collect_into: found, next: z}
      one: {type: script, script: one.sh}
      z: {type: end}
    """
    secret = "canary-5f2c91d07e"
    words = [f"{'x' * 9_990}{secret}{'y' * 500}"]
    files = {"one.sh": "echo '{\"output\": 1}'"}
    run = engine.finish(graph, files, state={"words": words}, variables={"token": secret})

    page = site.ask(f"/runs/{run.run_id}/items/1/each?item=0").text

    value, result = item_part(page)
    assert len(value) == 10_000
    assert f'class="text">{"x" * 59}…</td>' in page
    assert "canary" not in page
    assert "more characters" in page
    assert result == "No longer known."  # merged with what was there


def test_no_part_of_a_secret_is_left_where_a_text_is_cut(engine: Engine, site: ServedSite) -> None:
    graph = """
    variables: [{name: token, description: a secret, secret: true}]
    start: say
    nodes:
      say: {type: script, script: say.py, next: ask}
      ask: {type: approval, question: "Print {{long}}?", options: [], routes: {}, on_other: z}
      z: {type: end}
    """
    secret = "canary-5f2c91d07e"
    say = f"""
    import json
    print(json.dumps({{"short": "x" * 1_990 + "{secret}", "long": "x" * 9_990 + "{secret}"}}))
    """
    run = engine.finish(graph, {"say.py": dedent(say)}, variables={"token": secret})
    paths = (f"/runs/{run.run_id}/graph?node=say", f"/inbox/{run.run_id}/2/ask")

    pages = [site.ask(path).text for path in paths]

    assert all("x" * 1_990 in page for page in pages)
    assert [page for page in pages if "canary" in page] == []


def test_an_item_whose_steps_were_folded_is_no_longer_known(
    engine: Engine, site: ServedSite
) -> None:
    """The history's first step has a list of the same length, which was not what the map read."""
    engine.configure(history_limit_bytes=64 * 1024)
    graph = """
    initial_state: {words: [old], found: [], big: ""}
    start: fetch
    nodes:
      fetch: {type: script, script: fetch.sh, next: each}
      each: {type: map, over: "{{words}}", as: word, branch: one, collect_into: found, next: a}
      one: {type: script, script: one.sh}
      a: {type: script, script: a.sh, next: b}
      b: {type: script, script: b.sh, next: c}
      c: {type: script, script: c.sh, next: z}
      z: {type: end}
    """
    # What is stored is compressed, so it must not be alike.
    big = "$(head -c 20000 /dev/urandom | od -An -v -tx1 | tr -d ' \\n')"
    files = {
        "fetch.sh": f"""printf '{{"words": ["new"], "big": "%s"}}' "{big}\"""",
        "one.sh": "echo '{\"output\": 1}'",
        **{f"{name}.sh": f"""printf '{{"big": "%s"}}' "{big}\"""" for name in "abc"},
    }
    run = engine.finish(graph, files)

    page = site.ask(f"/runs/{run.run_id}/items/2/each?item=0").text

    assert [each.folded for each in engine.queries.history(run.run_id)][:3] == [False, True, True]
    assert item_part(page) == ["No longer known.", "No longer known."]


def item_part(page: str) -> list[str]:
    """Return the value and the result that a page shows of an item."""
    part = page.partition('id="item"')[2].partition("Conversation")[0]
    shown = re.findall(r"</h3>\s*<(?:pre|p)[^>]*>(.*?)</(?:pre|p)>", part, re.DOTALL)
    return [str(text) for text in shown]


def test_items_of_earlier_visits_are_shown_by_their_steps(engine: Engine, site: ServedSite) -> None:
    graph = """
    initial_state: {words: [a, b], found: []}
    start: each
    nodes:
      each: {type: map, over: "{{words}}", as: word, branch: one, collect_into: found, next: more}
      one: {type: script, script: one.sh}
      more: {type: script, script: more.sh}
      z: {type: end}
    """
    files = {
        "one.sh": """echo "$GRAPH_STATE" | sed 's/.*"word": *"\\(.\\)".*/{"output": "\\1!"}/'""",
        "more.sh": """
        case $GRAPH_STATE in
          *'["c"]'*) echo '{"_next": "z"}' ;;
          *) echo '{"words": ["c"], "_next": "each"}' ;;
        esac
        """,
    }
    run_id = engine.finish(graph, files).run_id

    last = site.ask(f"/runs/{run_id}/items?item=0")
    earlier = site.ask(f"/runs/{run_id}/items/1/each?item=1").text
    of_api = [site.ask(f"/api/v1/runs/{run_id}/items/{step}/each") for step in (1, 2, 3)]

    assert last.headers["Location"] == f"/runs/{run_id}/items/3/each?item=0"
    assert item_part(earlier) == ["b", "b!"]
    assert item_part(site.ask(last.headers["Location"]).text) == ["c", "c!"]
    assert f'href="/runs/{run_id}/items/1/each" aria-current="true">step 1</a>' in earlier
    assert f'href="/runs/{run_id}/items/3/each">step 3</a>' in earlier
    assert [each.status for each in of_api] == [200, 404, 200]
    assert [each.json["total"] for each in (of_api[0], of_api[2])] == [2, 1]
    assert site.ask(f"/runs/{run_id[:12]}/items/1/each").headers["Location"] == (
        f"/runs/{run_id}/items/1/each"
    )


def test_items_come_in_pages(engine: Engine, site: ServedSite, server: ModelServer) -> None:
    server.script.add(*[says("fine")] * 4)
    base = f"/api/v1/runs/{engine.finish(MAP).run_id}/items/1/each?limit=3"

    first = site.ask(base).json
    rest = site.ask(f"{base}&after={first['next']}").json

    assert [item["index"] for item in first["items"] + rest["items"]] == [0, 1, 2, 3]
    assert rest["next"] is None


def test_failures_are_grouped_by_code_node_and_first_line() -> None:
    told = [
        ("R013", "fetch", "timeout after 3.5 s"),
        ("R013", "page1", "can't find 'a b' in 0f3d204d69d03101\nlooking at Hooli"),
        ("R013", "fetch", "timeout after 20 s"),
        ("R013", "page1", 'can\'t find "x" in 82F14d69D0310100'),
        ("R013", "page1", "can't find `z` in 5f0c0a9c-ab12-4be1-9d4e-8a7d3b2c1f00\nat Initech"),
        ("R013", "page2", "can't find 'z' in 00f3d204"),
        ("R011", "fetch", "timeout after 3.5 s"),
    ]

    groups = grouped(OneFailure(place, *failure) for place, failure in enumerate(told))

    assert [(group["pattern"], group["count"], group["first"]) for group in groups] == [
        ("can't find … in …", 3, 1),
        ("timeout after … s", 2, 0),
        ("can't find … in …", 1, 5),
        ("timeout after … s", 1, 6),
    ]


def test_ten_thousand_items_are_a_small_drawing() -> None:
    drawn = wall_svg(
        "d" * 9_990 + "f" + "d" * 9, "10000 items", lambda index: f"?a=1&after={index}"
    )

    svg = ElementTree.fromstring(drawn)
    paths = {path.get("class"): path.get("d") for path in svg.findall("path")}
    assert (svg.get("data-each"), svg.get("height")) == ("9", "120")
    assert paths["state-failed"] == "M100 114h8"  # a square of nine, of which one failed
    assert svg.findall("a")[1].get("href") == "?a=1&after=900"
    assert svg.findall("a")[-1].get("aria-label") == "items 9,900 to 9,999"
    assert len(drawn) < 4_000


def test_two_thousand_items_have_a_square_each() -> None:
    svg = ElementTree.fromstring(wall_svg("d" * 1_999 + "f", "2000 items", str))

    paths = {path.get("class"): path.get("d") for path in svg.findall("path")}
    assert svg.get("data-each") == "1"
    assert paths["state-failed"] == "M990 194h8"


def test_logs_have_times_and_tell_tries_apart(engine: Engine, site: ServedSite) -> None:
    graph = """
    settings: {tolerate_failures: false}
    start: a
    nodes:
      a: {type: script, script: a.sh, max_attempts: 2, retry_delay_s: 1, next: z}
      z: {type: end}
    """
    run = engine.finish(graph, {"a.sh": "printf '\\033[32mgreen\\033[0m\\n' >&2; exit 3"})
    engine.clock.move(60)
    engine.tick()
    engine.drive()
    page = site.ask(f"/runs/{run.run_id}/logs").text
    file = site.ask(f"/runs/{run.run_id}/logs?download=1").text
    entries = site.ask(f"/api/v1/runs/{run.run_id}/logs").json["entries"]

    printed = [each for each in entries if "green" in each["text"]]
    assert {each["attempt"] for each in printed} == {1, 2}
    assert all(each["at"] for each in entries)
    assert page.count('<time data-form="clock-exact" datetime=') == len(entries)
    assert ">22:14:20.000</time><span" in page
    assert ">+60.000 s</span>" in page
    assert page.count('aria-label="Visit"') == 2
    assert "attempt 2</h3>" in page
    assert '<span class="ansi-2">green</span>' in page
    assert "x1b" not in page + file
    assert "stderr, attempt 2: green" in file


def test_a_large_state_is_given_in_parts(engine: Engine, site: ServedSite) -> None:
    graph = "start: z\nnodes: {z: {type: end, output: done}}"
    state = {f"k{number:03}": "word " * 8_000 for number in range(40)} | {"whole": "y" * 600_000}
    base = f"/runs/{engine.finish(graph, state=state).run_id}"

    pages = [site.ask(f"/api/v1{base}/state")]
    while (start := pages[-1].json["next"]) is not None:
        pages.append(site.ask(f"/api/v1{base}/state?from={start}"))
    page = site.ask(f"{base}/state")
    file = site.ask(f"{base}/state?download=1")

    keys = [key for each in pages for key in each.json["keys"]]
    assert (len(pages), max(len(each.text) for each in (*pages, page)) < 1_200_000) == (2, True)
    assert [key["key"] for key in keys] == sorted({*state, "initial_prompt"})
    assert [(key["key"], key["value"]) for key in keys if key["left_out"]] == [("whole", None)]
    (whole,) = site.ask(f"/api/v1{base}/state?key=whole").json["keys"]
    assert whole["value"] == state["whole"]
    assert "7 of 42 values" in page.text
    assert 'href="?from=7"' in page.text
    assert ">k007<" in site.ask(f"{base}/state?from=6").text
    assert file.headers["Content-Disposition"].endswith('-state.json"')
    assert file.json == {**state, "initial_prompt": ""}


def test_a_state_is_a_row_for_each_key_that_says_something(
    engine: Engine, site: ServedSite
) -> None:
    graph = "start: z\nnodes: {z: {type: end, output: done}}"
    deep = {"buyer": {"name": "Hooli <b>", "tags": ["a", "b"]}, "paid": True, "n": 4}
    state = {f"clause_{n:02}": "" for n in range(46)} | {
        **{"deal": deep, "rows": list(range(1_000)), "nothing": None},
        **{"long": "x" * 40_000, "word": "red"},
    }
    base = f"/runs/{engine.finish(graph, state=state).run_id}/state"

    page = site.ask(base).text
    filtered = site.ask(f"{base}?q=CLAUSE_0").text
    api = site.ask(f"/api/v1{base}?q=clause_0").json
    first, second = (site.ask(f"{base}?key=long&part={part}").text for part in (1, 2))

    assert "<b>48 empty</b>" in page  # the prompt too
    deal = page.partition("<b>deal</b>")[2].partition("</details> </div>")[0]
    assert '<span class="v-key">name</span> <span class="v-text">Hooli &lt;b&gt;</span>' in deal
    assert '<span class="v-key">paid</span> <span class="v-word">true</span>' in deal
    assert '<span class="v-number">4</span>' in deal
    assert '<li class="more">… 700 more</li>' in page
    assert '<div class="key"><b>word</b>' in page
    assert "x" * 2_001 not in page
    assert "clause_10" not in filtered
    assert (api["total"], len(api["keys"])) == (10, 10)
    assert "part 1 of 2" in first
    assert (first.count("x") > 32_768, 7_232 <= second.count("x") < 8_000) == (True, True)


def test_parts_of_a_run_are_filtered_and_downloaded(engine: Engine, site: ServedSite) -> None:
    graph = """
    initial_state: {text: ""}
    start: a
    nodes:
      a: {type: script, script: a.sh, next: b}
      b: {type: script, script: b.sh, next: z}
      z: {type: end}
    """
    story = "once " * 30
    files = {
        "a.sh": f"echo 'Loud <noise>' >&2; echo '{{\"text\": \"{story}\"}}'",
        "b.sh": f'echo quiet >&2; echo \'{{"text": "{story}upon", "big": "{"x" * 70_000}"}}\'',
    }
    run = engine.finish(graph, files)
    base = f"/runs/{run.run_id}"

    def texts(query: str) -> list[str]:
        entries = site.ask(f"/api/v1{base}/logs?{query}").json["entries"]
        return [entry["text"].strip() for entry in entries]

    assert (texts("q=NOISE"), texts("stream=stderr&node=b")) == (["Loud <noise>"], ["quiet"])
    log = site.ask(f"{base}/logs?download=1&node=a")
    assert log.headers["Content-Disposition"] == f'attachment; filename="{run.run_id}-logs.txt"'
    assert (log.headers["Content-Type"], "1 a stderr: Loud <noise>" in log.text) == (
        "text/plain; charset=utf-8",
        True,
    )
    state = site.ask(f"{base}/state?step=2").text
    assert "upon</ins>" in state
    assert "x" * 100 not in state
    assert "Too large to be shown here" in state
    assert site.ask(f"{base}/state?key=big&download=1").text == "x" * 70_000
    assert "x" * 32_768 in site.ask(f"{base}/state?key=big").text
    (only,) = site.ask(f"/api/v1{base}/state?key=text&step=1").json["keys"]
    assert only["value"] == story
    assert site.ask(f"/api/v1{base}/state?key=none").status == 404
    events = site.ask(f"{base}/events?kind=ended").text
    assert events.count("<li ") == 1
    assert "no longer stored" not in events
    engine.redis.xtrim(run_key("events", run.run_id), maxlen=2, approximate=False)
    assert "Older events are no longer stored" in site.ask(f"{base}/events").text
    assert site.ask(f"{base}/events?before=x").status == 400
    assert site.ask(f"/api/v1{base}/answers").json == {"answers": [], "next": None}
