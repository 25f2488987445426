"""Documents that commands make text of: files by extension, prefixes, PDF and DOCX."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from sleipnir.graphs.errors import BundleError
from sleipnir.graphs.knowledge.bases import DescribedBase
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.errors import SleipnirError
from sleipnir.scheduler.runs.submit import Request
from sleipnir.worker.knowledge.reading.documents import Loaded
from sleipnir.worker.knowledge.reading.loading import load_local, load_pages
from sleipnir.worker.knowledge.reading.reach import reach_here
from tests.support.engine import Engine

_CONTENT_TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-'
    'officedocument.wordprocessingml.document.main+xml"/></Types>'
)
_RELATIONS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="r1" Target="word/document.xml" Type="http://schemas.openxmlformats.org/'
    'officeDocument/2006/relationships/officeDocument"/></Relationships>'
)
_DOCUMENT = (
    '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
    "<w:p><w:r><w:t>Wombats dig burrows.</w:t></w:r></w:p></w:body></w:document>"
)
_PDF_OBJECTS = (
    b"<</Type/Catalog/Pages 2 0 R>>",
    b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
    b"<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>",
    b"<</Length 38>> stream\nBT /F 12 Tf (Otters hold hands.) Tj ET\nendstream",
    b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
)


def pdf() -> bytes:
    data, places = b"%PDF-1.4\n", []
    for number, content in enumerate(_PDF_OBJECTS, 1):
        places.append(len(data))
        data += b"%d 0 obj %s endobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    start = len(data)
    data += b"xref\n0 6\n0000000000 65535 f \n" + table
    return data + b"trailer <</Root 1 0 R/Size 6>>\nstartxref\n%d\n%%%%EOF\n" % start


def docx(document: str = _DOCUMENT) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", _CONTENT_TYPES)
        archive.writestr("_rels/.rels", _RELATIONS)
        archive.writestr("word/document.xml", document)
    return buffer.getvalue()


def load(directory: Path, *entries: str, **settings: Any) -> Loaded:
    reach = reach_here(Settings(**settings))
    return load_local(directory, entries, reach, lambda: False)


def failure_of(directory: Path, *entries: str, **settings: Any) -> str:
    loaded = load(directory, *entries, **settings)
    assert list(loaded.documents) == []
    [(_, why)] = loaded.failures
    return why


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "notes.odt").write_text("hello")
    (tmp_path / "paper.pdf").write_bytes(pdf())
    (tmp_path / "letter.docx").write_bytes(docx())
    return tmp_path


def test_pdf_and_docx_are_read_without_any_setting(directory: Path) -> None:
    loaded = load(directory, "*.{pdf,docx}")

    texts = {document.source: document.text.strip() for document in loaded.documents}
    assert texts == {"./letter.docx": "Wombats dig burrows.", "./paper.pdf": "Otters hold hands."}
    assert {document.ext for document in loaded.documents} == {"txt"}


@pytest.mark.parametrize("name", ["broken.pdf", "broken.docx"])
def test_a_file_that_is_not_what_its_name_says_is_told(directory: Path, name: str) -> None:
    (directory / name).write_text("no such thing")

    assert f"it cannot be read as {name.partition('.')[2]}" in failure_of(directory, name)


def test_a_document_that_takes_too_much_memory_is_told(directory: Path) -> None:
    body = "<w:p/>" * 800_000
    (directory / "many.docx").write_bytes(docx(_DOCUMENT.partition("<w:p>")[0] + body))

    why = failure_of(directory, "many.docx", rag_document_max_bytes=256 * 1024)

    assert "it cannot be read as docx: that takes more than 68 MiB of memory" in why


def test_a_command_makes_the_text_of_files_with_its_extension(directory: Path) -> None:
    command = "sh -c 'tr a-z A-Z < $1; printf \" $0\"' $HOME"

    [document] = load(directory, "notes.odt", document_loaders={"odt": command}).documents

    # No shell but the one that it names: what looks like a variable stays as it is.
    assert (document.source, document.text) == ("./notes.odt", "HELLO $HOME")


def test_a_command_may_write_a_file_instead(directory: Path) -> None:
    loaders = {"odt": "sh -c 'echo chatter; cat $1 > $2'"}

    [document] = load(directory, "notes.odt", document_loaders=loaders).documents

    assert document.text == "hello"


def test_a_prefix_hands_its_path_on_and_may_give_many_documents(directory: Path) -> None:
    paths = ("git:b/x", "b/y", "z")
    (directory / "out.json").write_text(json.dumps([{"path": p, "contents": p} for p in paths]))
    (directory / "b").mkdir()
    loaders = {"git": f"sh -c 'cat {directory}/out.json; : $1'", "echo": "printf %s $1"}

    loaded = load(
        directory, "git:b", "echo:https://there", "pdf:paper.pdf", document_loaders=loaders
    )

    assert [document.source for document in loaded.documents] == [
        *("git:b/x", "git:b/y", "git:b/z", "echo:https://there", "pdf:paper.pdf")
    ]
    assert loaded.documents[3].text == "https://there"


def test_a_prefix_leads_no_further_than_a_path(directory: Path) -> None:
    assert "outside" in failure_of(directory, "x:../y", document_loaders={"x": "cat $1"})


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("no-such-program $1", "needs 'no-such-program', which is missing"),
        ("sh -c 'echo that went wrong >&2; exit 3; $1'", "exit code 3: that went wrong"),
        ("sh -c 'sleep 600; $1'", "took longer than 1 s (tool_timeout)"),
        ("sh -c 'yes; $1'", "made more than 0.5 MiB (rag_document_max_bytes)"),
        ("cat", "the command has no $1"),
        ("cat 'x $1", "No closing quotation"),
        ("cat {{NO_SUCH_SECRET}} $1", "document_loaders.odt: no value for {{NO_SUCH_SECRET}}"),
        ("sh -c 'printf \"\\377\"; : $1'", "not UTF-8"),
        ("sh -c ': $1 $2'", "wrote no output"),
    ],
)
def test_what_goes_wrong_with_a_command_is_told(directory: Path, command: str, words: str) -> None:
    limit = 1 if "sleep" in command else 60
    why = failure_of(
        directory,
        "notes.odt",
        document_loaders={"odt": command},
        tool_timeout=limit,
        rag_document_max_bytes=512 * 1024,
    )

    assert words in why


def test_loaders_of_urls_stand_in_for_reading_pages(directory: Path) -> None:
    site = '[{"path":"https://x/a","text":"one"},{"path":"https://x/b","text":"two"}]'
    (directory / "site.json").write_text(site)
    loaders = {"url": "echo page of $1", "recursive_url": f"cat {directory}/site.json $1.none"}
    entries = ("https://x/page", "https://x/**")
    reach = reach_here(Settings(document_loaders=loaders))

    loaded = load_local(directory, entries, reach, lambda: False)

    assert "recursive_url" in loaded.failures[0][1]  # its exit code is 1
    good = {**loaders, "recursive_url": f"sh -c 'cat {directory}/site.json; : $1'"}
    reach = reach_here(Settings(document_loaders=good))
    loaded = load_local(directory, entries, reach, lambda: False)
    load_pages(entries, reach, lambda: False, loaded)
    assert [document.source for document in loaded.require_whole()] == [
        *("https://x/page", "https://x/a", "https://x/b")
    ]


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("no JSON", 'did not print [{"path": …, "text": …}, …]'),
        ('[{"path": "https://x/a"}]', 'did not print [{"path": …, "text": …}, …]'),
        ('[{"path": 1, "text": null}]', 'did not print [{"path": …, "text": …}, …]'),
        ("[" * 100_000, 'did not print [{"path": …, "text": …}, …]'),
        ("[]", "the loader 'recursive_url' found no document"),
    ],
)
def test_what_a_loader_of_sites_must_not_print_is_told(
    directory: Path, printed: str, words: str
) -> None:
    (directory / "site.json").write_text(printed)
    loaders = {"recursive_url": f"sh -c 'cat {directory}/site.json; : $1'"}

    assert words in failure_of(directory, "https://x/**", document_loaders=loaders)


def test_a_prefix_that_finds_nothing_is_told(directory: Path) -> None:
    why = failure_of(directory, "git:https://x", document_loaders={"git": "sh -c 'echo []; : $1'"})

    assert why == "the loader 'git' found no document"


def test_a_command_of_ones_own_is_taken_instead_of_ours_and_may_have_secrets(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY_OF_READER", "sesame")

    loaded = load(directory, "*.pdf", document_loaders={"pdf": "echo {{KEY_OF_READER}} for $1"})

    assert loaded.documents[0].text == f"sesame for {directory}/paper.pdf\n"


GRAPH = """
start: look_up
nodes:
  look_up:
    type: rag
    documents: [DOCUMENTS]
    embedding_model: none
    top_k: 9
    state_updates: {sources: "{{output.sources}}"}
    next: z
  z: {type: end}
"""


def test_commands_run_where_a_run_is_submitted_and_workers_need_none(
    engine: Engine, tmp_path: Path
) -> None:
    calls, outside = tmp_path / "calls", tmp_path / "outside.md"
    outside.write_text("hello from outside")
    command = f"sh -c 'echo $1 >> {calls}; cat $1'"
    site = f"sh -c 'echo $1 >> {calls}; echo hello page'"
    loaders = {"odt": command, "there": site, "url": site}
    entries = f"'*.odt', 'there:https://x', {outside}, plain.md, 'https://x/page'"
    directory = engine.write("tested", GRAPH.replace("DOCUMENTS", entries))
    (directory / "a.odt").write_text("hello")
    (directory / "plain.md").write_text("hello")
    engine.configure(document_loaders=loaders, rag_absolute_paths=True)
    prepared = engine.client.prepare("tested")
    engine.configure()  # workers without any of it
    outside.unlink()

    run_id = engine.client.submit(prepared, Request(prompt="hello"))
    engine.drive()

    assert engine.run(run_id).status == "succeeded", engine.run(run_id).failure
    assert sorted(engine.state(run_id)["sources"]) == sorted(
        ["./a.odt", "./plain.md", str(outside), "https://x/page", "there:https://x"]
    )
    assert len(calls.read_text().splitlines()) == 3
    # Once it is noted as built nobody runs a command for it again.
    outside.write_text("hello from outside")
    engine.configure(document_loaders=loaders, rag_absolute_paths=True)
    engine.client.prepare("tested")  # finds out by the address of what they make
    engine.client.prepare("tested")
    assert len(calls.read_text().splitlines()) == 6


def test_an_engine_of_this_machine_reads_what_the_submitting_command_may(
    engine: Engine, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("hello from outside")
    engine.write("tested", GRAPH.replace("DOCUMENTS", str(outside)))
    engine.configure(redis_url="unix:///private", rag_absolute_paths=True)
    prepared = engine.client.prepare("tested")
    engine.configure(redis_url="unix:///private")  # `up` without the setting

    run_id = engine.client.submit(prepared, Request(prompt="hello"))
    engine.drive()

    assert engine.run(run_id).status == "succeeded", engine.run(run_id).failure
    assert engine.state(run_id)["sources"] == [str(outside)]


def test_a_command_that_fails_where_a_run_is_submitted_fails_its_build(engine: Engine) -> None:
    engine.configure(document_loaders={"odt": "sh -c 'echo broken >&2; exit 3; $1'"})
    files = {"a.odt": "hello", "b.md": "hello"}

    run = engine.finish(GRAPH.replace("DOCUMENTS", "'*.odt', b.md"), files, prompt="hello")

    message = engine.failure(run.run_id).message
    assert "./a.odt: the loader 'odt' failed with exit code 3: broken" in message
    assert "b.md" not in message


class LeavesOut:
    """Somebody at a terminal who goes on without what cannot be read, or does not."""

    def __init__(self, *, agrees: bool) -> None:
        self._agrees = agrees
        self.asked: list[Any] = []

    def __call__(self, _agent: str, _base: DescribedBase, _defaults: Any) -> None:
        raise AssertionError("nothing is missing")

    def leaves_out(self, agent: str, base: DescribedBase, failures: Any) -> bool:
        self.asked.append((agent, base.node_id, [source for source, _ in failures]))
        return self._agrees


def test_a_run_goes_on_without_documents_that_somebody_leaves_out(engine: Engine) -> None:
    engine.configure(document_loaders={"odt": "no-such-program $1"})
    files = {"a.odt": "hello", "b.md": "hello", "c.md": "nul \0 byte"}
    engine.write("tested", GRAPH.replace("DOCUMENTS", "'*.odt', '*.md'"), files)

    declines, agrees = LeavesOut(agrees=False), LeavesOut(agrees=True)
    with pytest.raises(SleipnirError, match=r"knowledge base 'look_up': .*a\.odt: .*c\.md: "):
        engine.client.prepare("tested", choose=declines)
    prepared = engine.client.prepare("tested", choose=agrees)
    run_id = engine.client.submit(prepared, Request(prompt="hello"))
    engine.drive()

    assert agrees.asked == declines.asked == [("tested", "look_up", ["./a.odt", "./c.md"])]
    assert engine.state(run_id)["sources"] == ["./b.md"]


def test_documents_over_the_limit_of_a_bundle_are_built_beforehand(engine: Engine) -> None:
    engine.write("tested", GRAPH.replace("DOCUMENTS", "'noise:/dev/urandom'"))
    noise = "sh -c 'head -c 200000 $1 | base64'"
    engine.configure(
        document_loaders={"noise": noise}, bundle_limit_bytes=100_000, rag_absolute_paths=True
    )

    with pytest.raises(BundleError, match=r"documents/look_up\.jsonl.*sleipnir kb build tested"):
        engine.client.prepare("tested")
