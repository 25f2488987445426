"""What the model, people and `logs` get of a call, however it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sleipnir.worker.tools import call
from tests.support.processes import is_alive
from tests.support.tool_calls import ToolBundle
from tests.support.wait import wait_until

SECRET = "s3cr3t-value"


@pytest.fixture
def bundle(tmp_path: Path) -> ToolBundle:
    return ToolBundle(tmp_path)


def bash(body: str) -> str:
    return f"# @describe Does it\nmain() {{\n{body}\n}}\n"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('{"k":[1,null]}', {"k": [1, None]}),
        ("text\\n", {"output": "text\n"}),
        ("", "DONE"),
        (" \\n", "DONE"),
        ("null", "DONE"),
        ('""', ""),
        ("NaN", {"output": "NaN"}),
        ("1e999", {"output": "1e999"}),
        ("9007199254740993", 9007199254740993),
        ("\\xff\\xfeabc", {"output": "\ufffd\ufffdabc"}),
        ("\\e[1;31mred\\e[0m \\e]8;;http://x\\alink\\e]0;t\\a.", {"output": "red link."}),
        ('{"k":"\\\\u001b[31mred"}', {"k": "red"}),
    ],
)
def test_what_is_written_becomes_a_value(bundle: ToolBundle, written: str, value: Any) -> None:
    tool = bundle.tool(bash(f"printf '{written}' > \"$LLM_OUTPUT\""))

    assert bundle.value(tool) == value


@pytest.mark.parametrize("command", ["rm", "mkdir -p", "mkfifo"])
def test_no_file_for_the_result_is_no_result(bundle: ToolBundle, command: str) -> None:
    tool = bundle.tool(bash(f'rm "$LLM_OUTPUT"; {command} "$LLM_OUTPUT" || true'))

    assert bundle.value(tool) == "DONE"


def test_a_deep_result_is_text(bundle: ToolBundle) -> None:
    tool = bundle.tool(bash("printf '[%.0s' {1..100000} > \"$LLM_OUTPUT\""))

    assert bundle.value(tool) == {"output": "[" * 100_000}


def test_a_failure_tells_all_there_is(bundle: ToolBundle) -> None:
    tool = bundle.tool(bash('echo out; echo err >&2; echo half > "$LLM_OUTPUT"; exit 3'))

    assert bundle.value(tool) == {
        "tool_call_error": "demo: exit code 3",
        "stderr": "err\n",
        "stdout": "out\n",
        "output": "half\n",
    }
    assert bundle.narrated == ["out"]
    assert bundle.logged == [("stderr", "err")]


def test_a_signal_is_a_failure(bundle: ToolBundle) -> None:
    tool = bundle.tool(bash("kill -9 $$"))

    assert bundle.value(tool) == {"tool_call_error": "demo: signal 9 (SIGKILL)"}


@pytest.mark.parametrize("limits", [{"timeout_s": 0.2}, {"timeout_s": 0, "left_s": 0.2}])
def test_time_runs_out_for_the_whole_group(bundle: ToolBundle, limits: dict[str, float]) -> None:
    tool = bundle.tool(bash("sleep 60 & echo $! > pid; wait"))

    value = bundle.value(tool, **limits)

    assert value == {"tool_call_error": "demo: timed out after 0.2 s"}
    sleeping = int((bundle.context.workdir / "pid").read_text())
    wait_until(lambda: not is_alive(sleeping), "its child is gone")


def test_who_ignores_sigterm_is_killed(bundle: ToolBundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "GRACE_S", 0.05)
    tool = bundle.tool(bash("trap '' TERM; while :; do sleep 60; done"))

    assert bundle.value(tool, timeout_s=0.1) == {"tool_call_error": "demo: timed out after 0.1 s"}


def test_a_cancelled_call_ends_at_once(bundle: ToolBundle) -> None:
    tool = bundle.tool(bash("sleep 60 & wait"))
    bundle.context.cancellation.set()

    assert bundle.value(tool) == {"tool_call_error": "demo: signal 15 (SIGTERM)"}


def test_what_outlives_the_tool_holds_nobody_up(bundle: ToolBundle) -> None:
    tool = bundle.tool(bash("echo begun; sleep 60 & echo $! > pid"))

    assert bundle.value(tool) == "DONE"
    left = int((bundle.context.workdir / "pid").read_text())
    wait_until(lambda: not is_alive(left), "what it left is gone")


def test_too_much_is_cut_with_a_note(bundle: ToolBundle) -> None:
    body = """
    printf '%05000d' 0 | tee -a "$LLM_OUTPUT"
    { echo first; printf '%05000d' 0; echo last; } >&2
    exit 1
    """

    value = bundle.value(bundle.tool(bash(body)), output_limit_bytes=1_000)

    note = "was cut off: more than 1,000 bytes]\n"
    assert value["stdout"] == "0" * 1_000 + "\n[the rest " + note
    assert value["output"] == "0" * 1_000 + "\n[the rest " + note
    assert value["stderr"] == "\n[the beginning " + note + "0" * 995 + "last\n"


def test_a_result_that_is_too_long_is_text_with_a_note(bundle: ToolBundle) -> None:
    tool = bundle.tool(bash("printf '[%s]' 1111111111 > \"$LLM_OUTPUT\""))

    value = bundle.value(tool, output_limit_bytes=10)

    assert value == {"output": "[111111111\n[the rest was cut off: more than 10 bytes]\n"}


def test_secrets_are_masked_everywhere(bundle: ToolBundle) -> None:
    body = f"""
    echo "out {SECRET}"; echo "err {SECRET}" >&2
    echo '{{"{SECRET}": ["{SECRET}", 12345678]}}' > "$LLM_OUTPUT"
    """
    secrets = (SECRET, "12345678", "short")

    value = bundle.value(bundle.tool(bash(body)), secrets=secrets)
    failed = bundle.value(bundle.tool(bash(body + "exit 1")), secrets=secrets)

    assert value == {"***": ["***", "***"]}
    assert SECRET not in str(failed)
    assert bundle.narrated == ["out ***"] * 2
    assert bundle.logged == [("stderr", "err ***")] * 2


def test_a_result_keeps_what_only_looks_like_a_key(bundle: ToolBundle) -> None:
    tool = bundle.tool(bash('echo "def key_derivation_v2():" | tee "$LLM_OUTPUT"'))

    assert bundle.value(tool) == {"output": "def key_derivation_v2():\n"}
    assert bundle.narrated == ["def ***():"]


def test_narration_is_cut_short(bundle: ToolBundle) -> None:
    tool = bundle.tool(bash("printf '%09000d\\n' 0; seq 2000; echo; printf end"))

    bundle.value(tool)

    assert bundle.narrated[:2] == ["0" * 2_000 + "…", "1"]
    assert bundle.narrated[999:] == ["999", "… more lines, not shown"]


def test_a_line_that_does_not_end_is_narrated_too(bundle: ToolBundle) -> None:
    bundle.value(bundle.tool(bash("printf 'one\\n\\n\\e[32mtwo\\e[0m'")))

    assert bundle.narrated == ["one", "two"]


@pytest.mark.parametrize(
    ("context", "reason"),
    [
        ({"variables": {"v": "a\0b"}}, "cannot start: embedded null byte"),
        ({"variables": {"v": "x" * 200_000}}, "cannot start: Argument list too long"),
        ({"workdir": Path("/dev/null/work")}, "cannot start: Not a directory"),
    ],
)
def test_what_cannot_start_says_why(
    bundle: ToolBundle, context: dict[str, Any], reason: str
) -> None:
    assert bundle.value(bundle.tool(bash(":")), **context) == {"tool_call_error": f"demo: {reason}"}


def test_a_missing_interpreter_is_named(
    bundle: ToolBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = bundle.tool(bash(":"))
    monkeypatch.setenv("PATH", str(bundle.root))

    assert bundle.value(tool) == {
        "tool_call_error": "demo: cannot start: 'bash' is not on the PATH of this worker"
    }


def test_a_missing_file_is_named(bundle: ToolBundle) -> None:
    tool = bundle.tool(bash(":"))
    tool.file.unlink()

    assert bundle.value(tool) == {
        "tool_call_error": "demo: the call was refused",
        "stderr": f"error: there is no file {tool.file}",
    }


def test_a_call_leaves_nothing_behind(
    bundle: ToolBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))

    bundle.value(bundle.tool(bash('touch "${LLM_OUTPUT%/*}/more"')))

    assert list((tmp_path / "tmp").iterdir()) == []
