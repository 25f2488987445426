"""What may go with a prompt: types of files by their content, and how many tokens they take."""

from __future__ import annotations

import pytest

from sleipnir.graphs.attachments import kind_of, type_of
from sleipnir.worker.llm.attachments import AttachedFile, pages
from tests.support.media import GIF, JPEG, PNG, WEBP, pdf


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (JPEG, "image/jpeg"),
        (GIF, "image/gif"),
        (WEBP, "image/webp"),
        (pdf(1), "application/pdf"),
        (b"", None),
        (b"PASSWORD=1", None),
        (b"\x89PNG", None),
        (b"RIFF....WAVE", None),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", None),
        (b" %PDF-1.7", None),
    ],
)
def test_only_images_and_pdfs_have_a_type(data: bytes, media_type: str | None) -> None:
    assert type_of(data) == media_type


def test_an_image_counts_as_so_many_tokens_and_a_pdf_by_its_pages() -> None:
    assert kind_of("image/webp") == "image"
    assert [pages(pdf(n)) for n in (0, 1, 7)] == [1, 1, 7]
    assert pages(pdf(12, packed=True)) == 12
    assert AttachedFile(PNG, "image/png", "a.png").tokens() == 1_500
    assert AttachedFile(pdf(3), "application/pdf", "a.pdf").tokens() == 6_000
