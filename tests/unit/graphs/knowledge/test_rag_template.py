"""What a user's message becomes with what was found about it."""

from __future__ import annotations

from sleipnir.graphs.knowledge.rag_template import DEFAULT, filled, lacking


def test_placeholders_are_replaced_in_one_pass() -> None:
    template = "__INPUT__|__CONTEXT__|__SOURCES__|__INPUT__"

    assert filled(template, "q __CONTEXT__", "c __INPUT__", ["a", "b"]) == (
        "q __CONTEXT__|c __INPUT__|- a\n- b|q __CONTEXT__"
    )
    assert filled(template, "q", "", []) == "q"


def test_our_own_template_has_all_placeholders() -> None:
    assert lacking(DEFAULT) == []
    assert lacking("__SOURCES__") == ["__INPUT__", "__CONTEXT__"]
    assert "__SOURCES__" in DEFAULT
    assert "\nc\n" in filled(None, "q", "c", ["s"])
