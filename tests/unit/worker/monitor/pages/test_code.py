"""Code is shown with colours, as long as they are found quickly."""

from __future__ import annotations

import re

import pytest

from sleipnir.worker.monitor.pages.code import code_html, files_html

GRAPH = "nodes:  # of <all>\n  a: {type: llm, n: 3}\n"
SCRIPT = 'def f(a):\n    """Two\n    lines."""\n    return a + 1\n'


def test_words_of_code_have_classes_line_by_line() -> None:
    yaml, python, other = (
        file["html"].split("\n")
        for file in files_html(
            [
                {"path": "graph.yaml", "text": GRAPH},
                {"path": "scripts/f.py", "text": SCRIPT},
                {"path": "README", "text": "<b>"},
            ]
        )
    )

    assert yaml[0] == '<span class="a">nodes</span>:  <span class="c"># of &lt;all&gt;</span>'
    assert python[0].startswith('<span class="k">def</span> <span class="a">f</span>(')
    assert python[1:3] == [
        '    <span class="s">&quot;&quot;&quot;Two</span>',
        '<span class="s">    lines.&quot;&quot;&quot;</span>',
    ]
    assert other == ["&lt;b&gt;"]


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("yaml", "`" * 32_768),  # takes half a minute without bounds
        ("python", "x =  \n" * 6_000),
        ("yaml", '"\n' * 16_000),
        ("json", "[\n" * 16_000),
        ("python", "a" * 40_000),
    ],
)
def test_what_is_made_to_take_long_has_no_colours_but_is_shown(language: str, text: str) -> None:
    html = code_html(text, language)

    plain = re.sub(r"<[^>]+>", "", html).replace("&quot;", '"').replace("&#x27;", "'")
    assert [line.rstrip() for line in plain.split("\n")] == [
        line.rstrip() for line in text.split("\n")
    ]
