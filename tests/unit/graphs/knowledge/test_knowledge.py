"""What a knowledge base is built with, how it is named, and how two searches become one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from sleipnir.graphs.knowledge.address import DocumentHash, address_of, content_hash
from sleipnir.graphs.knowledge.build_settings import BuildSettings, Incomplete, effective
from sleipnir.graphs.knowledge.fusion import fuse, rounded
from sleipnir.graphs.knowledge.pointer import Pointer, UnusablePointer, changes, read_pointer

SETTINGS = BuildSettings("openai:e", 1000, 50)
POINTER = Pointer(
    address="a" * 64,
    embedding_model="openai:e",
    chunk_size=1000,
    chunk_overlap=50,
    documents=["docs"],
    files=2,
    chunks=3,
    dimension=256,
    files_hash="b" * 64,
    built_at="2026-01-02T03:04:05Z",
)


def test_two_orders_become_one() -> None:
    a, b, c, d = range(4)

    fused = fuse([a, b, c], [c, d, a], 3)

    shown = [(hit.chunk, rounded(hit.score)) for hit in fused]
    assert shown == [(a, 0.27183), (c, 0.26786), (b, 0.14063)]
    assert [(hit.vector_rank, hit.keyword_rank) for hit in fused] == [(1, 3), (3, 1), (2, None)]


def test_without_vectors_the_keywords_decide() -> None:
    assert [hit.chunk for hit in fuse([], [5, 3, 4], 2)] == [5, 3]


@pytest.mark.parametrize(
    ("node", "defaults", "expected"),
    [
        ({}, {}, Incomplete(("embedding_model", "chunk_size", "chunk_overlap"))),
        ({"chunk_size": 10}, {"embedding_model": "a:b"}, Incomplete(("chunk_overlap",))),
        (
            {"chunk_size": 10},
            {"embedding_model": "a:b", "chunk_overlap": 0, "chunk_size": 7},
            BuildSettings("a:b", 10, 0),
        ),
        ({"embedding_model": "none"}, {}, BuildSettings("none", 1000, 50)),
        ({"embedding_model": "none", "chunk_size": 40}, {}, BuildSettings("none", 40, 2)),
    ],
)
def test_a_node_is_built_with_its_own_settings_else_with_the_engines(
    node: dict[str, object], defaults: dict[str, object], expected: object
) -> None:
    assert effective(SimpleNamespace(**node), defaults) == expected


def test_an_overlap_as_large_as_a_chunk_is_refused() -> None:
    found = effective(
        SimpleNamespace(chunk_size=10), {"embedding_model": "a:b", "chunk_overlap": 10}
    )

    assert isinstance(found, Incomplete)
    assert found.problem == "chunk_overlap (10) is not less than chunk_size (10)"


def test_an_address_depends_on_every_input_and_not_on_their_order() -> None:
    one = DocumentHash("./a.md", "md", content_hash("one"))
    two = DocumentHash("./b.md", "md", content_hash("two"))

    addresses = {
        address_of(SETTINGS, [one, two]),
        address_of(SETTINGS, [two, one]),
        address_of(SETTINGS, [one]),
        address_of(BuildSettings("openai:e", 1000, 51), [one, two]),
        address_of(BuildSettings("openai:f", 1000, 50), [one, two]),
        address_of(SETTINGS, [one, DocumentHash("./b.md", "txt", two.content)]),
    }

    assert len(addresses) == 5


def test_a_pointer_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "look_up.yaml"
    file.write_text(POINTER.to_yaml())

    assert read_pointer(file) == POINTER
    assert read_pointer(tmp_path / "none.yaml") is None


@pytest.mark.parametrize(
    "text", ["", "format: 2", "[", "format: 1\naddress: ../x", POINTER.to_yaml()[:120], "\x00"]
)
def test_what_is_no_pointer_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "look_up.yaml"
    file.write_text(text)

    with pytest.raises(UnusablePointer):
        read_pointer(file)


def test_what_would_be_built_otherwise_is_told() -> None:
    wanted = {"embedding_model": "openai:e", "chunk_size": 500, "chunk_overlap": None}

    found = changes(POINTER, wanted, ["docs ", "more"])

    assert found == [
        "the knowledge base was built with chunk_size 1000, now it is 500",
        "the knowledge base was built with documents docs, now it is docs, more",
    ]
    assert changes(POINTER, wanted | {"chunk_size": 1000}, [" docs"]) == []
