"""How well searches find, on a part of what `sleipnir bench rag --quality` measures."""

from __future__ import annotations

from sleipnir.worker.bench.rag.quality import quality


def test_searches_find_more_than_plain_bm25_does() -> None:
    found = {(row.name, row.kind): row for row in quality(("click", "jinja2", "requests"))}

    assert found["fused", None].questions == 3 * 51
    for alone in ("keywords", "vectors", "bm25s"):
        assert found["fused", None].recall >= found[alone, None].recall
    assert found["fused", "reworded"].recall >= found["keywords", "reworded"].recall + 0.05
    assert found["keywords", "verbatim"].recall == 1
    assert found["keywords", "natural"].recall >= found["bm25s", "natural"].recall
    assert found["vectors", "reworded"].recall >= found["keywords", "reworded"].recall
    assert all(0 <= row.mrr <= row.recall <= 1 for row in found.values())
