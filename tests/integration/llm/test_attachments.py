"""Images and PDFs that go with a prompt: where they are read, what is sent, what is kept."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from sleipnir.graphs.attachments import PDF
from sleipnir.scheduler.runs.recording import written
from sleipnir.worker.llm.attachments import AttachedFile
from sleipnir.worker.llm.client import Endpoint, ModelCallFailed, ModelRequest, complete
from tests.support.certificates import certificate
from tests.support.engine import Engine
from tests.support.media import GIF, JPEG, PNG, WEBP, data_url, document, pdf
from tests.support.model_server import ModelServer, says
from tests.support.web_server import Page, WebServer, redirect

GRAPH = """
model: openai:gpt-4o
initial_state: {files: [], more: ""}
start: read
nodes:
  read:
    type: llm
    prompt: What does it say?
    attach: ["{{files}}", "{{more}}"]
    next: done
    fallback: failed
    state_updates: {said: "{{output}}"}
    %s
  done: {type: end, output: "{{said}}"}
  failed: {type: end, output: "{{said}}"}
"""
TOOLS = '''
def look() -> str:
    """Looks."""
    return "A7"
'''
SCAN = pdf(2)


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    """The submitter's directory."""
    directory = tmp_path / "work"
    directory.mkdir()
    return directory


def finish(engine: Engine, files: Any, fields: str = "", **request: Any) -> Any:
    return engine.finish(GRAPH % fields, {"tools.py": TOOLS}, state={"files": files}, **request)


def sent(server: ModelServer, request: int = -1) -> Any:
    return server.requests[request].messages[0]["content"]


def test_files_are_sent_before_the_text_and_nothing_keeps_their_content(
    engine: Engine, server: ModelServer, workdir: Path
) -> None:
    server.script.add(says("An invoice."), says("Nothing."))
    (workdir / "sub").mkdir()
    (workdir / "sub" / "scan.png").write_bytes(PNG)
    (workdir / "scan.pdf").write_bytes(SCAN)
    files = ["sub/scan.png", "", str(workdir / "scan.pdf"), data_url(JPEG, "text/plain")]

    run = finish(engine, files, workdir=str(workdir), recorded=True)
    without = finish(engine, [])

    text = {"type": "text", "text": "What does it say?"}
    assert (run.output, without.output) == ("An invoice.", "Nothing.")
    assert sent(server, 0) == [
        {"type": "image_url", "image_url": {"url": data_url(PNG, "image/png")}},
        {
            "type": "file",
            "file": {"filename": "scan.pdf", "file_data": data_url(SCAN, "application/pdf")},
        },
        {"type": "image_url", "image_url": {"url": data_url(JPEG, "image/jpeg")}},
        text,
    ]
    assert sent(server, 1) == "What does it say?"
    documents = [
        document(PNG, "image/png", "scan.png"),
        document(SCAN, "application/pdf", "scan.pdf"),
        document(JPEG, "image/jpeg", "attachment.jpeg"),
    ]
    (call,) = engine.client.recordings.recorded(run.run_id).calls
    assert call.request["messages"] == [{"role": "user", "content": [*documents, text]}]
    (kept,) = engine.queries.transcripts(run.run_id)
    assert kept["exchanges"][0]["messages"] == [{"role": "user", "content": [*documents, text]}]


def test_a_recording_replies_to_equal_files_only(
    engine: Engine, server: ModelServer, workdir: Path
) -> None:
    server.script.add(says("An invoice."))
    (workdir / "a.gif").write_bytes(GIF)
    run = finish(engine, "a.gif", workdir=str(workdir), recorded=True)
    recording = engine.client.recordings.put(
        written(engine.client.recordings.recorded(run.run_id).entries), "made"
    )

    again = finish(engine, "a.gif", workdir=str(workdir), replay=recording)
    (workdir / "a.gif").write_bytes(WEBP)
    other = finish(engine, "a.gif", workdir=str(workdir), replay=recording)

    assert again.output == "An invoice."
    assert "this request is not in the recording" in other.output
    assert len(server.requests) == 1


def test_addresses_are_fetched_once_a_visit(
    engine: Engine, server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(made))
    engine.configure(allow_private_addresses=True)
    server.script.add(says(None, calls=[{"name": "look", "arguments": {}}]), says("done"))
    pages = {"/a/scan%201.png": Page(PNG, "text/html"), "/to": redirect("/a/scan%201.png")}
    with WebServer(pages, made) as web:
        run = finish(engine, web.url("/to"), "tools: [look]", recorded=True)

    assert run.output == "done"
    assert [visit.target for visit in web.visits] == ["/to", "/a/scan%201.png"]
    assert sent(server, 0) == sent(server, 1)
    assert sent(server)[0]["image_url"]["url"] == data_url(PNG, "image/png")


def test_what_is_amiss_fails_the_node(engine: Engine, server: ModelServer, workdir: Path) -> None:
    (workdir / "secret.png").write_text("PASSWORD=1")
    (workdir / "large.png").write_bytes(PNG + bytes(5_000))
    (workdir / "ok.png").write_bytes(PNG)
    outside = workdir.parent / "outside.png"
    outside.write_bytes(PNG)
    (workdir / "link.png").symlink_to(outside)
    (workdir / "sub").mkdir()
    engine.configure(
        attach_file_limit_bytes=4_096, attach_request_limit_bytes=150, attach_count_limit=3
    )

    def reason(files: Any) -> str:
        output = str(finish(engine, files, workdir=str(workdir)).output)
        return output.removeprefix("LLM node failed: cannot attach ")

    nowhere = "it lies outside the run's working directory and the agent's directory"
    assert reason("secret.png") == "'secret.png': it is none of PNG, JPEG, GIF, WebP and PDF"
    assert reason("link.png") == f"'link.png': {nowhere}"
    assert reason("../outside.png") == f"'../outside.png': {nowhere}"
    assert reason(str(outside)) == f"'{str(outside)[:60]}…': {nowhere}"
    assert "there is no such file" in reason("none.png")
    assert "a directory, not a file" in reason("sub")
    assert "larger than" in reason("large.png")
    assert "(attach_request_limit_bytes)" in reason(["ok.png", "ok.png", "ok.png"])
    assert "more than 3 files" in reason([data_url(GIF, "image/gif")] * 4)
    assert reason(5) == "'5': {{files}} must be a text or a list of texts"
    assert "data:TYPE;base64" in reason("data:image/png,abc")
    assert "not base64" in reason("data:image/png;base64,a?c")
    assert "no such file is stored" in reason(f"blob:{'0' * 64}")
    assert "private" in reason("http://127.0.0.1:9/x.png")
    assert server.requests == []


def test_a_model_that_takes_none_is_not_asked(engine: Engine, server: ModelServer) -> None:
    server.script.add(says("seen"), says("seen"))
    image, scan = data_url(PNG, "image/png"), data_url(SCAN, "application/pdf")

    def output(model: str, file: str) -> Any:
        graph = (GRAPH % "max_attempts: 3").replace("openai:gpt-4o", model)
        return engine.finish(graph, state={"files": file}).output

    own = {"api_base": server.base_url}
    providers = {"openai": {"attach": ["image"]}, "blind": {**own, "attach": []}, "own": own}
    engine.configure(models={"providers": providers})
    failed = "LLM node failed: cannot attach 'attachment"

    assert output("own:any", scan) == "seen"
    assert output("openai:gpt-3.5-turbo", image) == "seen"
    asked = len(server.requests)
    assert output("blind:any", image) == f"{failed}.png': blind:any takes no images"
    assert output("openai:gpt-4o", scan) == f"{failed}.pdf': openai:gpt-4o takes no PDF"
    assert len(server.requests) == asked


def test_other_providers_get_files_in_their_own_form(server: ModelServer) -> None:
    files = {"a": AttachedFile(PNG, "image/png", "a.png"), "b": AttachedFile(SCAN, PDF, "b.pdf")}
    documents = [{**file.document(), "sha256": key} for key, file in files.items()]
    messages = [{"role": "user", "content": [*documents, {"type": "text", "text": "Read."}]}]
    endpoint = Endpoint("anthropic/claude-sonnet-4-5", server.base_url, "sk-of-this-test")
    server.script.add(says("in another form"))

    with pytest.raises(ModelCallFailed):
        complete(ModelRequest("anthropic:m", messages, attachments=files), endpoint=endpoint)

    image, scan, text = server.requests[0].messages[0]["content"]
    assert (image["type"], image["source"]["media_type"]) == ("image", "image/png")
    assert base64.b64decode(image["source"]["data"]) == PNG
    assert (scan["type"], scan["source"]["media_type"]) == ("document", PDF)
    assert base64.b64decode(scan["source"]["data"]) == SCAN
    assert text["text"] == "Read."


def test_a_schema_as_a_field_is_not_told_in_the_text_beside_files(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(says('{"shop": "Corner"}'), says('{"shop": "Corner"}'))
    schema = "{type: object, properties: {shop: {type: string}}, required: [shop]}"

    for structured in ("native", "prompt"):
        fields = f"output_schema: {schema}\n    structured: {structured}"
        run = finish(engine, data_url(PNG, "image/png"), fields)
        assert engine.state(run.run_id)["shop"] == "Corner"

    assert sent(server, 0)[-1]["text"] == "What does it say?"
    assert "shop" in sent(server, 1)[-1]["text"]
