"""Tools that ask for a person's consent, and what else the bash helper has."""

from __future__ import annotations

from pathlib import Path

import pytest

from sleipnir.graphs.tools.function import Function
from sleipnir.worker.tools.call import Completed, NeedsConfirmation
from tests.support.tool_calls import ToolBundle

QUESTION = 'Say "yes" \\ & go?\n+ line ❤'
PYTHON = '''
from sleipnir.tool import guard, guard_path
def run(question: str, path: str = "/"):
    """Asks."""
    try:
        guard(question)
    except BaseException:
        pass
    guard_path(path, "outside?")
    return "done"
'''
BASH = """
# @describe Asks
# @option --question!
# @option --path=/
source "$LLM_PROMPT_UTILS_FILE"
main() {
  guard_operation "$argc_question"
  guard_path "$argc_path" "outside?"
  echo done >> "$LLM_OUTPUT"
}
"""


@pytest.fixture
def bundle(tmp_path: Path) -> ToolBundle:
    return ToolBundle(tmp_path)


@pytest.fixture(params=["demo.py", "demo.sh"])
def asking(bundle: ToolBundle, request: pytest.FixtureRequest) -> Function:
    """A tool that asks two questions, in either language."""
    return bundle.tool(PYTHON if request.param == "demo.py" else BASH, request.param)


def bash(body: str) -> str:
    return f'# @describe Asks\nsource "$LLM_PROMPT_UTILS_FILE"\nmain() {{\n{body}\n}}\n'


def done(outcome: Completed | NeedsConfirmation) -> bool:
    return isinstance(outcome, Completed) and outcome.value["output"].strip() == "done"


def test_a_guarded_tool_asks_one_question_after_the_other(
    bundle: ToolBundle, asking: Function
) -> None:
    arguments = {"question": QUESTION}

    assert bundle.call(asking, arguments) == NeedsConfirmation(QUESTION)
    assert bundle.call(asking, arguments, approvals=[QUESTION]) == NeedsConfirmation("outside?")
    assert done(bundle.call(asking, arguments, approvals=[QUESTION, "outside?"]))


def test_consent_to_another_question_is_none(bundle: ToolBundle, asking: Function) -> None:
    asked = bundle.call(asking, {"question": QUESTION}, approvals=[QUESTION + "!", "outside?"])

    assert asked == NeedsConfirmation(QUESTION)


def test_nobody_is_asked_where_all_is_confirmed(bundle: ToolBundle, asking: Function) -> None:
    assert done(bundle.call(asking, {"question": QUESTION}, auto_confirm=True))


def test_an_agent_s_variable_alone_confirms_nothing(bundle: ToolBundle, asking: Function) -> None:
    asked = bundle.call(asking, {"question": QUESTION}, variables={"auto_confirm": "1"})

    assert asked == NeedsConfirmation(QUESTION)


def test_a_question_shows_no_secret_and_can_still_be_answered(
    bundle: ToolBundle, asking: Function
) -> None:
    arguments = {"question": "Send s3cr3t-value?"}

    asked = bundle.call(asking, arguments, secrets=("s3cr3t-value",))
    next_asked = bundle.call(asking, arguments, secrets=("s3cr3t-value",), approvals=["Send ***?"])

    assert asked == NeedsConfirmation("Send ***?")
    assert next_asked == NeedsConfirmation("outside?")


@pytest.mark.parametrize(
    ("path", "asks"),
    [
        ("file", False),
        ("new/deep/file", False),
        (".", False),
        ("sub/../file", False),
        ("..", True),
        ("../work-shop/file", True),
        ("sub/../../file", True),
        ("link/file", True),
        ("/etc/passwd", True),
    ],
)
def test_only_paths_outside_the_current_directory_are_guarded(
    bundle: ToolBundle, asking: Function, path: str, asks: bool
) -> None:
    workdir = bundle.context.workdir
    workdir.mkdir()
    (workdir / "link").symlink_to("/tmp")

    outcome = bundle.call(asking, {"question": "q", "path": path}, approvals=["q"])

    assert outcome == NeedsConfirmation("outside?") if asks else done(outcome)


def test_a_question_from_a_subshell_ends_the_whole_tool(bundle: ToolBundle) -> None:
    tool = bundle.tool(bash('local x=$(guard_operation "sure?"; echo y); touch changed'))

    assert bundle.call(tool) == NeedsConfirmation("sure?")
    assert list(bundle.context.workdir.iterdir()) == []


def test_a_guard_without_a_question_asks_one(bundle: ToolBundle) -> None:
    assert bundle.call(bundle.tool(bash("guard_operation"))) == NeedsConfirmation("May demo go on?")


def test_the_exit_code_alone_is_no_question(bundle: ToolBundle) -> None:
    assert bundle.value(bundle.tool(bash("exit 75"))) == {"tool_call_error": "demo: exit code 75"}


@pytest.mark.parametrize("prompt", ["input", "list", "checkbox", "password", "editor", "confirm"])
def test_a_prompt_points_to_what_asks_people(bundle: ToolBundle, prompt: str) -> None:
    value = bundle.value(bundle.tool(bash(f'answer=$({prompt} "Name?"); touch changed')))

    assert value["stderr"].startswith(f"error: {prompt}: a tool has no terminal; let the model ask")
    assert "user__" in value["stderr"]
    assert list(bundle.context.workdir.iterdir()) == []


def test_messages_go_to_the_log_and_colours_are_plain(bundle: ToolBundle) -> None:
    body = 'set -u; error a; warn b; info c; debug d; trace e; red "f"; echo "${green}g"; detect_os'

    assert bundle.value(bundle.tool(bash(body))) == "DONE"
    assert bundle.logged == [("stderr", "error: a\nwarning: b\ninfo: c\ndebug: d\ntrace: e")]
    assert bundle.narrated[:2] == ["f", "g"]
    assert bundle.narrated[2] in {"linux", "macos"}


def test_a_patched_file_is_printed_and_stays_as_it_is(bundle: ToolBundle) -> None:
    body = """
    printf 'a\\nb\\n' > file
    patch_file file <(printf '@@ -1,2 +1,2 @@\\n a\\n-b\\n+c\\n') >> "$LLM_OUTPUT"
    cat file
    """

    assert bundle.value(bundle.tool(bash(body))) == {"output": "a\nc\n"}
    assert bundle.narrated == ["a", "b"]


def test_a_patch_that_does_not_fit_fails(bundle: ToolBundle) -> None:
    body = "echo a > file; patch_file file <(printf '@@ -1 +1 @@\\n-x\\n+c\\n')"

    value = bundle.value(bundle.tool(bash(body)))

    assert value["tool_call_error"] == "demo: exit code 1"
    assert (
        "cannot patch file: hunk 1 does not fit: line 1: expected 'x', found 'a'" in value["stderr"]
    )
