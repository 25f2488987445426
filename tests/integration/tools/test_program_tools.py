"""The shipped tools that run programs, tell the time and send mail, called as processes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from sleipnir.worker.tools.call import NeedsConfirmation
from tests.support.certificates import certificate
from tests.support.global_tools import GlobalTools
from tests.support.mail_server import MailServer


@pytest.fixture
def tools(tmp_path: Path) -> GlobalTools:
    return GlobalTools(tmp_path)


def shell(tools: GlobalTools, command: str) -> str:
    return tools.text("execute_command", {"command": command}, auto_confirm=True)


def shell_fails(tools: GlobalTools, command: str) -> dict[str, str]:
    value = tools.call("execute_command", {"command": command}, auto_confirm=True)
    assert "tool_call_error" in value
    return dict(value)


def python(tools: GlobalTools, code: str) -> str:
    return tools.text("execute_py_code", {"code": code})


# ---- commands


def test_a_command_runs_in_the_working_directory_once_somebody_agreed(tools: GlobalTools) -> None:
    call = ("execute_command", {"command": "pwd; echo $((1 + 1)); echo oops >&2"})

    asked = tools.call(*call)

    assert asked == NeedsConfirmation("run this command?\npwd; echo $((1 + 1)); echo oops >&2")
    assert tools.text(*call, approvals=[asked.question]) == f"{tools.workdir}\n2\noops\n"


@pytest.mark.parametrize("command", ["echo begun; false; echo on", "echo begun; false | cat"])
def test_a_command_ends_at_the_first_step_that_fails(tools: GlobalTools, command: str) -> None:
    failure = shell_fails(tools, command)

    assert failure["stdout"] == "begun\n"
    assert failure["stderr"] == "the command ended with exit status 1\n"


def test_a_command_that_ends_as_a_question_would_is_a_failure(tools: GlobalTools) -> None:
    assert shell_fails(tools, "exit 75")["stderr"] == "the command ended with exit status 75\n"
    assert shell_fails(tools, "kill -9 $$")["stderr"] == "the command ended with signal 9\n"


def test_a_program_left_in_the_background_holds_up_nothing(tools: GlobalTools) -> None:
    assert shell(tools, "sleep 50 & echo done") == "done\n"


def test_a_command_that_prints_without_end_is_stopped(tools: GlobalTools) -> None:
    assert "more than 8 MiB" in shell_fails(tools, "yes")["stderr"]


# ---- Python code


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("print('a')\nx = 20\nx + 1", "a\n21\n"),
        ("'text'", "text\n"),
        ("['list']", "['list']\n"),
        ("def double(n):\n    return 2 * n\ndouble(1), double(2)", "(2, 4)\n"),
        ("print('before')\nexit()\nprint('after')", "before\n"),
    ],
)
def test_code_answers_with_what_it_prints_and_its_last_value(
    tools: GlobalTools, code: str, text: str
) -> None:
    assert python(tools, code) == text


def test_code_without_output_answers_that_it_is_done(tools: GlobalTools) -> None:
    assert tools.call("execute_py_code", {"code": "x = 1"}) == "DONE"


def test_code_that_fails_shows_its_own_traceback_and_what_it_printed(tools: GlobalTools) -> None:
    code = "print('begun')\ndef f():\n    return 1 / 0\nf()"

    failure = tools.call("execute_py_code", {"code": code})

    assert failure["stdout"] == "begun\n"
    assert failure["stderr"].startswith('Traceback (most recent call last):\n  File "<code>"')
    assert "    return 1 / 0\n" in failure["stderr"]
    assert failure["stderr"].endswith("ZeroDivisionError: division by zero\n")


def test_code_with_a_syntax_error_shows_the_line(tools: GlobalTools) -> None:
    said = tools.failure("execute_py_code", {"code": "x = 1\ny ="})

    assert 'File "<code>", line 2' in said
    assert said.endswith("SyntaxError: invalid syntax")


# ---- git


@pytest.fixture
def repository(tools: GlobalTools) -> Path:
    subprocess.run(["git", "init", "-q", "-b", "main", str(tools.workdir)], check=True)
    return tools.workdir


def test_git_runs_one_command_once_somebody_agreed(tools: GlobalTools, repository: Path) -> None:
    (repository / "a file").touch()
    call = ("git_command", {"command": "git status --short 'a file'"})

    asked = tools.call(*call)

    assert asked == NeedsConfirmation("run this command?\ngit status --short 'a file'")
    assert tools.text(*call, approvals=[asked.question]) == '?? "a file"\n'


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("status; rm x", "';' may only stand in single quotes"),
        ("log --format=$(id)", "'$' may only stand in single quotes"),
        ('commit -m "a | b"', "'|' may only stand in single quotes"),
        ("-c core.pager=x log", "without options before it"),
        ("git", "expected a git command"),
        ("commit -m 'open", "No closing quotation"),
    ],
)
def test_git_refuses_what_is_no_single_command(
    tools: GlobalTools, command: str, reason: str
) -> None:
    assert reason in tools.failure("git_command", {"command": command})


def test_git_may_be_given_anything_in_single_quotes(tools: GlobalTools, repository: Path) -> None:
    command = "log --format='$(id); %s'"

    failure = tools.call("git_command", {"command": command}, auto_confirm=True)

    assert failure["stderr"] == "git ended with exit status 128\n"
    assert "does not have any commits yet" in failure["stdout"]


# ---- the time


def test_the_time_is_told_with_weekday_and_zone(tools: GlobalTools) -> None:
    text = tools.text("get_current_time")

    assert re.fullmatch(r"[A-Z]\w+, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+ \(UTC[+-]\d{4}\)", text)


# ---- mail

LETTER = {"recipient": "b@example.org", "subject": "Grüße", "body": "Hello\nthere"}


def sign_in(address: str, **more: str) -> dict[str, str]:
    names = ("EMAIL_SMTP_ADDR", "EMAIL_SMTP_USER", "EMAIL_SMTP_PASS")
    return {**dict(zip(names, (address, "a@example.org", "word"), strict=True)), **more}


def test_mail_is_sent_over_tls(
    tools: GlobalTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(made))
    with MailServer(made) as server:
        tools.set(sign_in(server.address, EMAIL_SENDER_NAME="Ann"))

        said = tools.text("send_mail", LETTER)

    assert said == "Sent the mail to b@example.org"
    signed_in = "AUTH PLAIN AGFAZXhhbXBsZS5vcmcAd29yZA=="
    assert server.lines.index("STARTTLS") < server.lines.index(signed_in)
    assert {"From: Ann <a@example.org>", "To: b@example.org", "Hello"} <= {*server.lines}


def test_no_password_is_told_to_a_server_without_tls(tools: GlobalTools) -> None:
    with MailServer() as server:
        tools.set(sign_in(server.address))

        said = tools.failure("send_mail", LETTER)

    assert "the mail was not sent" in said
    assert not any(line.startswith("AUTH") for line in server.lines)


def test_no_password_is_told_to_a_server_nobody_vouches_for(
    tools: GlobalTools, tmp_path: Path
) -> None:
    with MailServer(certificate(tmp_path)) as server:
        tools.set(sign_in(server.address))

        said = tools.failure("send_mail", LETTER)

    assert "certificate verify failed" in said
    assert server.lines[-1] == "STARTTLS"


def test_a_line_break_in_the_subject_is_refused(tools: GlobalTools) -> None:
    tools.set(sign_in("127.0.0.1:1"))

    said = tools.failure("send_mail", {**LETTER, "subject": "x\nBcc: c@example.org"})

    assert "the recipient or the subject is not valid" in said


def test_mail_without_a_server_names_the_variables(tools: GlobalTools) -> None:
    said = tools.failure("send_mail", LETTER)

    assert all(f"missing environment variable {name}" in said for name in sign_in(""))
