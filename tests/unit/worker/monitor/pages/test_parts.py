"""Parts that many pages have, and how templates are written."""

from __future__ import annotations

import pytest
from tornado.template import DictLoader

from sleipnir.worker.monitor.access import Powers, Role
from sleipnir.worker.monitor.pages.parts import PageParts
from tests.support.pages import ROOT

MOST = 120  # characters in a line
TEMPLATES = sorted((ROOT / "worker" / "monitor" / "templates").glob("*.html"))


def page(text: str, role: Role = Role.OPERATE, **values: object) -> str:
    parts = PageParts("/ops", Powers.of(role), "_token", None, "/ops/assets/1/{}".format)
    template = DictLoader({"page.html": text}).load("page.html")
    return bytes(template.generate(**parts.names(), **values)).decode()


def test_a_link_to_a_run_has_the_prefix_of_the_site() -> None:
    told = page("{% module run_link('0123456789abcdef') %}")

    assert told == '<a href="/ops/runs/0123456789abcdef"><code>01234567</code></a>'


def test_an_icon_only_repeats_a_word() -> None:
    told = page("{% module icon('inbox') %}")

    assert told == (
        '<svg class="icon" aria-hidden="true"><use href="/ops/assets/1/icons.svg#inbox"/></svg>'
    )


def test_a_fact_and_a_table_are_around_other_content() -> None:
    told = page("{% apply fact('<b>') %}{{ value }}{% end %}", value="<i>")
    table = page("{% apply wide_table('All', 'sums') %}<tr></tr>{% end %}")

    assert told == "<div><dt>&lt;b&gt;</dt><dd>&lt;i&gt;</dd></div>"
    assert table == (
        '<div class="wide" tabindex="0" role="region" aria-label="All">'
        '<table class="list sums"><tr></tr></table></div>'
    )


def test_figures_have_the_names_of_their_columns() -> None:
    head = '<thead><tr><th><bdi>a "b"</bdi></th><th class="n">95\n %</th><th></th></tr></thead>'
    rows = "<tr><td>{{ value }}</td><td class='n'>1</td><td></td></tr>" * 2
    whole = f"{{% apply wide_table('All', 'figures') %}}{head}<tbody>{rows}</tbody>{{% end %}}"

    told = page(whole.replace('"b"', "&quot;b&quot;"), value="<td>")

    row = (
        '<tr><td data-head="a &quot;b&quot;">&lt;td&gt;</td>'
        "<td data-head=\"95 %\" class='n'>1</td><td></td></tr>"
    )
    assert told.count(row) == 2


@pytest.mark.parametrize(
    ("role", "needs", "is_disabled"),
    [
        (Role.READ, "answer", True),
        (Role.ANSWER, "answer", False),
        (Role.ANSWER, "operate", True),
        (Role.OPERATE, "operate", False),
    ],
)
def test_a_button_is_for_those_with_the_role_and_tells_others_why(
    role: Role, needs: str, is_disabled: bool
) -> None:
    told = page("{% module act_button('Go', needs, value='<') %}", role, needs=needs)

    why = f' disabled title="requires the role {needs}"' if is_disabled else ""
    assert told == f'<button value="&lt;"{why}>Go</button>'


def test_a_button_is_a_link_if_it_leads_somewhere() -> None:
    told = page("{% module button('<Go>', 'primary', 'play', href='/a?b&c') %}")

    icon = '<svg class="icon" aria-hidden="true"><use href="/ops/assets/1/icons.svg#play"/></svg>'
    assert told == f'<a class="btn btn-primary" href="/a?b&amp;c">{icon}&lt;Go&gt;</a>'


def test_tabs_with_nothing_on_them_are_left_out() -> None:
    pages = [("Log", "/log", 12_000), ("Items", "/items", 0), ("Graph", "/graph", None)]
    told = page("{% module tabs('Run', pages, 'Log') %}", pages=pages)

    assert told == (
        '<nav class="tabs" aria-label="Run">'
        '<a href="/log" aria-current="page">Log <span class="quiet">12,000</span></a>'
        '<a href="/graph">Graph</a></nav>'
    )


def test_a_number_has_its_comparison_beside_it() -> None:
    told = page("{% apply fact('Took', 'usual 3.5 s') %}3.2 s{% end %}")
    tile = page("{% module tile('Spent', '$81', '/limits', 'failed', 'of $120') %}")

    assert told == (
        '<div><dt>Took</dt><dd>3.2 s <span class="compared">usual 3.5 s</span></dd></div>'
    )
    assert tile == (
        '<a class="tile state-failed" href="/limits"><span>Spent</span><b>$81</b>'
        "<span>of $120</span></a>"
    )


def test_a_form_carries_the_token() -> None:
    told = page("{% apply act_form('/ops/limits?a=1&b=2') %}<b></b>{% end %}")

    assert told == (
        '<form method="post" action="/ops/limits?a=1&amp;b=2" class="steer">'
        '<input type="hidden" name="_token" value=""><b></b></form>'
    )


def test_lines_of_a_difference_are_marked() -> None:
    told = page("{% module diff(['+<a>', '-b', ' c'], 'x') %}")

    assert told == (
        '<pre class="diff" tabindex="0" aria-label="x">'
        '<span class="is-added">+&lt;a&gt;\n</span><span class="is-removed">-b\n</span>'
        '<span class="is-same"> c\n</span></pre>'
    )


def test_no_line_of_a_template_is_too_long_to_read() -> None:
    found = [
        f"{file.name}:{number}"
        for file in TEMPLATES
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > MOST
    ]

    assert TEMPLATES
    assert found == []


def test_a_form_that_is_written_out_has_the_token() -> None:
    for file in TEMPLATES:
        text = file.read_text(encoding="utf-8")
        forms = text.count('<form method="post"') - (file.name == "sign_in.html")
        assert text.count("{{ token_field }}") == forms, file.name
