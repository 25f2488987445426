"""`sleipnir chat`: with a normal agent and a graph, on a terminal and from a pipe."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.command_line import COMMAND, Sleipnir, Terminal
from tests.support.model_server import HANGS, ModelServer, Request, Script, calls, says
from tests.support.wait import wait_until

CONFIG = """
description: Talks.
model: openai:m
instructions: You talk to {{who}}.
variables: [{name: who, description: Whom., default: Ann}]
conversation_starters: ["Hello, I am {{who}}", Good evening]
"""
RELEASE = """
description: Asks before it ships.
start: approve
nodes:
  approve:
    type: approval
    question: "Ship {{initial_prompt}}?"
    options: ["yes", "no"]
    routes: {"yes": shipped, "no": refused}
    on_other: refused
  shipped: {type: end, output: "shipped {{initial_prompt}}"}
  refused: {type: end, output: "refused"}
"""
ENTER, UP, CTRL_C, CTRL_D = "\r", "\x1b[A", "\x03", "\x04"
# The terminal is asked to mark what is pasted as soon as a message can be typed.
READY = "\x1b[?2004h"
PASTED = "\x1b[200~one line\nand another\x1b[201~"


def asked(request: Request) -> list[str]:
    return [each["content"] for each in request.messages if each["role"] == "user"]


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """A model that counts what it is told."""
    script = Script()
    ask = calls(("user__ask", {"question": "Which colour?", "options": ["red", "blue"]}))
    script.when(lambda request: request.messages[-1]["role"] == "tool", says("Painted."))
    script.when(lambda request: asked(request)[-1] == "Wait.", HANGS)
    script.when(lambda request: asked(request)[-1] == "Be wordy.", says("word " * 40 + "end."))
    script.when(lambda request: "paint" in asked(request)[-1], ask)
    script.when(lambda request: len(asked(request)) == 1, says("The first reply."))
    script.when(lambda request: len(asked(request)) == 2, says("The second reply."))
    script.when(lambda request: True, says("One more reply."))
    with ModelServer(script=script) as server:
        yield server


@pytest.fixture(scope="module")
def sleipnir(server: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sleipnir]:
    sleipnir = Sleipnir(
        tmp_path_factory.mktemp("chat"),
        OPENAI_BASE_URL=server.base_url,
        OPENAI_API_KEY="sk-only-for-this-test",
        TERM="xterm",
    )
    sleipnir.write("release", RELEASE)
    talker = sleipnir.project / "agents" / "talker"
    talker.mkdir()
    (talker / "config.yaml").write_text(CONFIG)
    with sleipnir.up():
        yield sleipnir


def test_a_conversation_comes_from_a_pipe_and_goes_on_in_a_run(
    sleipnir: Sleipnir, server: ModelServer
) -> None:
    lines = (
        ".starter\n.starter 1\nAnd you?\n.sing\n.clear todo\n.sources rag\n.info\n.exit\nunheard\n"
    )

    done = sleipnir("chat", "talker", "--session", "ada", stdin=lines)

    assert (done.returncode, done.stdout) == (0, "The first reply.\nThe second reply.\n")
    assert "1) Hello, I am Ann\n2) Good evening\n" in done.stderr
    assert asked(server.requests[-1]) == ["Hello, I am Ann", "And you?"]
    assert "no command '.sing'; .help lists the commands" in done.stderr
    assert "'talker' has no todo list" in done.stderr
    assert "the last answer used no documents\n" in done.stderr
    assert "session   ada\n" in done.stderr
    assert sleipnir("run", "-q", "talker", "So?", "--session", "ada").stdout == "One more reply.\n"
    listed = [json.loads(line) for line in sleipnir("sessions", "--json").stdout.splitlines()]
    found = [(each["agent"], each["session"], each["status"]) for each in listed]
    assert ("talker", "ada", "succeeded") in found
    assert sleipnir("sessions", "talker", "--remove", "ada").returncode == 0


def test_messages_are_taken_back_and_sent_with_files(
    sleipnir: Sleipnir, server: ModelServer
) -> None:
    (sleipnir.project / "my plan.md").write_text("peas\n")
    lines = (
        ".undo\nFirst?\n.session later\nSecond?\n.undo\n"
        ".file 'my plan.md' -- And this?\n.regenerate\n"
        f".file gone.md\n.file\n.file '~\0x'\n.starter {'1' * 5_000}\n"
        ".undo\n.undo\n.undo\n.regenerate\n.fork\n.model x\n"
    )

    done = sleipnir("chat", "talker", stdin=lines)

    first, second = "The first reply.", "The second reply."
    assert done.stdout.splitlines() == [first, second, second, second]
    with_file = 'And this?\n\n<file path="my plan.md">\npeas\n</file>'
    assert [asked(request) for request in server.requests[-3:]] == [
        ["First?", "Second?"],
        ["First?", with_file],
        ["First?", with_file],
    ]
    assert done.stderr.splitlines().count("nothing to undo") == 3
    assert "what tools did stays done" in done.stderr
    assert "cannot attach gone.md: No such file or directory\n" in done.stderr
    assert "this is a bug" not in done.stderr
    assert "say which files: .file PATH|URL… [-- TEXT]\n" in done.stderr
    assert "no command '.fork'; here it is sleipnir fork; .help lists" in done.stderr
    assert "no command '.model'; .help lists the commands\n" in done.stderr
    refused = sleipnir("chat", "release", stdin=".undo\n.regenerate\n").stderr
    for command in (".undo", ".regenerate"):
        assert f"{command} is for normal agents; 'release' is a graph agent" in refused


def test_messages_are_edited_recalled_and_pasted(sleipnir: Sleipnir, server: ModelServer) -> None:
    command = [*COMMAND, "chat", "talker"]
    terminal = Terminal(command, sleipnir.project, sleipnir.environment, whole=True)

    terminal.wait_for(READY)
    terminal.type(PASTED + ENTER)
    terminal.wait_for("The first reply.")
    terminal.wait_for(READY)
    assert asked(server.requests[-1]) == ["one line\nand another"]
    assert "The first reply." not in terminal.shown
    terminal.type(UP + "!" + ENTER)
    terminal.wait_for("The second reply.")
    terminal.wait_for(READY)
    terminal.type("not sent" + CTRL_C)
    terminal.wait_for("Ctrl-C again leaves")
    terminal.wait_for(READY)
    terminal.type(CTRL_C)

    assert terminal.end()[0] == 0
    assert asked(server.requests[-1])[1] == "one line\nand another!"


def test_ctrl_c_cancels_a_reply_and_the_chat_goes_on(
    sleipnir: Sleipnir, server: ModelServer
) -> None:
    terminal = sleipnir.on_terminal("chat", "talker")
    terminal.wait_for(READY)
    terminal.type("Wait." + ENTER)
    wait_until(
        lambda: any("Wait." in request.text for request in server.requests),
        "the model is asked",
        90,
    )
    terminal.interrupt()
    terminal.wait_for("cancelling run")
    terminal.wait_for("your message stays in the conversation")
    terminal.wait_for(READY)
    terminal.type("Hello" + ENTER)
    terminal.wait_for(READY)
    terminal.type(CTRL_D)

    code, shown = terminal.end()
    assert (code, shown) == (0, "The second reply.\n")
    assert asked(server.requests[-1]) == ["Wait.", "Hello"]
    (cut,) = (each for each in server.requests[-1].messages if each["role"] == "assistant")
    assert cut["content"] == "[The user interrupted this reply.]"


def test_a_conversation_gets_a_name_and_is_recalled(
    sleipnir: Sleipnir, server: ModelServer
) -> None:
    terminal = sleipnir.on_terminal("chat", "talker")
    terminal.wait_for(READY)
    terminal.type("Good evening" + ENTER)
    terminal.wait_for(READY)
    terminal.type("/session temp" + ENTER)
    terminal.wait_for("'temp' is for conversations without a name: choose another")
    terminal.wait_for(READY)
    terminal.type("/session late" + ENTER)
    terminal.wait_for("from the next message on this is session 'late'")
    terminal.type("/nonsense" + ENTER)
    terminal.wait_for("no command '/nonsense'; .help lists the commands; begin with a blank")
    terminal.wait_for(READY)
    terminal.type("And you?" + ENTER)
    terminal.wait_for(READY)
    terminal.type(" /home is where?" + ENTER)
    terminal.wait_for(READY)
    terminal.type("quit" + ENTER)
    code, shown = terminal.end()

    again = sleipnir.on_terminal("chat", "talker", "--session", "late")
    again.wait_for("session late: 3 messages of yours, the last")
    again.wait_for("> /home is where?")
    again.wait_for("One more reply.")
    again.wait_for(READY)
    again.type(CTRL_D)
    again.end()

    assert (code, shown) == (0, "The first reply.\nThe second reply.\nOne more reply.\n")
    assert asked(server.requests[-1]) == ["Good evening", "And you?", " /home is where?"]
    assert "temp-" not in sleipnir("sessions", "talker", "--json").stdout


def test_a_reply_is_printed_once_and_between_words_if_the_conversation_is_summarised(
    sleipnir: Sleipnir,
) -> None:
    agent = sleipnir.project / "agents" / "wordy"
    agent.mkdir()
    (agent / "config.yaml").write_text(CONFIG + "compression_threshold: 1\n")
    command = [*COMMAND, "chat", "wordy"]
    terminal = Terminal(command, sleipnir.project, sleipnir.environment, whole=True)
    terminal.wait_for("starting 'wordy'")
    terminal.wait_for(READY)
    terminal.type("Be wordy." + ENTER)
    terminal.wait_for("end.")
    said = terminal.before
    terminal.wait_for(READY)
    left = terminal.before
    terminal.type(CTRL_D)
    terminal.end()

    assert "word\r\nword " in said
    assert "wor\r\nd" not in said
    assert "end." not in left


def test_an_unanswered_question_survives_leaving_and_coming_back(
    sleipnir: Sleipnir, server: ModelServer
) -> None:
    first = sleipnir.on_terminal("chat", "talker")
    first.wait_for(READY)
    first.type("Please paint" + ENTER)
    first.wait_for("Which colour?")
    first.wait_for("another answer")
    first.type(CTRL_D)
    first.wait_for("or come back with: sleipnir chat talker")
    assert first.end()[0] == 4

    second = sleipnir.on_terminal("chat", "talker")
    second.wait_for("Which colour?")
    second.wait_for("another answer")
    second.type("1" + ENTER)
    second.wait_for(READY)
    second.type("Thanks" + ENTER)
    second.wait_for(READY)
    second.type(CTRL_D)

    assert second.end() == (0, "Painted.\nThe second reply.\n")
    assert asked(server.requests[-1]) == ["Please paint", "Thanks"]
    assert '{"answer":"red"}' in server.requests[-1].text
    # A conversation without a name ends with its chat, if no question is left open.
    assert "temp-" not in sleipnir("sessions").stdout


def test_each_message_to_a_graph_is_a_run_of_its_own(sleipnir: Sleipnir) -> None:
    # Where nobody can answer, a question that is open already keeps nobody from asking another one.
    assert sleipnir("chat", "release", stdin="nothing\n").returncode == 4
    left = sleipnir("chat", "release", stdin="it\nnot read any more\n")
    assert (left.returncode, left.stdout) == (4, "")
    assert "or come back with: sleipnir chat release" in left.stderr

    terminal = sleipnir.on_terminal("chat", "release")
    terminal.wait_for("Ship it?")
    terminal.wait_for("another answer")
    terminal.type("1" + ENTER)
    terminal.wait_for(READY)
    terminal.type(CTRL_D)

    assert terminal.end() == (0, "shipped it\n")


SHIPPER = """
start: approve
nodes:
  approve:
    type: approval
    question: "Ship {{initial_prompt}}?"
    options: ["yes", "no"]
    routes: {"yes": shipped, "no": refused}
    on_other: refused
  shipped: {type: end, output: shipped}
  refused: {type: end, output: refused}
"""


def test_a_message_typed_before_a_question_is_a_message_and_no_answer(sleipnir: Sleipnir) -> None:
    sleipnir.write("shipper", SHIPPER)
    terminal = sleipnir.on_terminal("chat", "shipper")
    terminal.wait_for(READY)
    terminal.type("it" + ENTER)
    terminal.type("that" + ENTER + "and th")
    terminal.wait_for("? Ship it?")
    terminal.wait_for("another answer")
    terminal.type("no" + ENTER)
    terminal.wait_for("> that")
    terminal.wait_for("? Ship that?")
    terminal.wait_for("another answer")
    terminal.type("no" + ENTER)
    terminal.wait_for("and th")
    terminal.type("is" + ENTER)
    terminal.wait_for("? Ship and this?")
    terminal.wait_for("another answer")
    terminal.type("no" + ENTER)
    terminal.wait_for(READY)
    terminal.type(CTRL_D)

    assert terminal.end() == (0, "refused\n" * 3)


def test_the_documents_of_an_answer_are_named(sleipnir: Sleipnir) -> None:
    directory = sleipnir.project / "agents" / "reader"
    directory.mkdir()
    (directory / "config.yaml").write_text("model: openai:m\ndocuments: [dogs.md]\n")
    (directory / "dogs.md").write_text("Dogs bark in the park.")

    lines = "which dogs bark?\n.sources rag\n.sources\n"
    done = sleipnir("chat", "reader", stdin=lines, SLEIPNIR_RAG_EMBEDDING_MODEL="none")

    assert (done.returncode, done.stdout) == (0, "The first reply.\n"), done.stderr
    assert "./dogs.md\n" in done.stderr
    assert "say which sources: .sources rag" in done.stderr
    assert (directory / "rag.yaml").exists()
