"""The shipped agent `log-digest`: its scripts, run as the engine runs them."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sleipnir.graphs.document.loader import load_agent
from sleipnir.graphs.document.references import AgentSearch
from sleipnir.graphs.state import encode
from sleipnir.graphs.validator import Resources, validate

AGENT = Path(__file__).parents[3] / "graphs" / "agents" / "log-digest"
GRAPH_STATE_LIMIT = 32_768


def run_script(name: str, state: dict[str, Any], cwd: Path, **env: str) -> Any:
    """The finished process of one node script."""
    text = encode(state)
    base = {"PATH": os.environ["PATH"], "LLM_AGENT_DATA_DIR": str(AGENT), "LC_ALL": "C"}
    # Compiled once per session, and nothing written beside the shipped scripts.
    base["PYTHONPYCACHEPREFIX"] = str(cwd.parent / "pycache")
    if len(text.encode()) <= GRAPH_STATE_LIMIT:
        base["GRAPH_STATE"] = text
    else:
        (cwd / "state.json").write_text(text, encoding="utf-8")
        base["GRAPH_STATE_FILE"] = str(cwd / "state.json")
    script = AGENT / "scripts" / f"{name}.py"
    command = [sys.executable, "-S", str(script)]
    return subprocess.run(
        command, cwd=cwd, env=base | env, capture_output=True, text=True, timeout=60, check=False
    )


def writes(name: str, state: dict[str, Any], cwd: Path, **env: str) -> dict[str, Any]:
    """What one node script hands to the state; it must succeed."""
    process = run_script(name, state, cwd, **env)
    assert process.returncode == 0, process.stderr
    result: dict[str, Any] = json.loads(process.stdout)
    return result


def counts(prompt: str, cwd: Path) -> dict[str, Any]:
    """The state after the log that `prompt` names is split, analysed and merged."""
    state: dict[str, Any] = {"initial_prompt": prompt, "error": "", "observations": []}
    state |= writes("split_log", state, cwd)
    state["chunk_digests"] = [
        writes("analyse_chunk", {**state, "chunk": chunk}, cwd)["output"]
        for chunk in state["chunks"]
    ]
    return state | writes("merge_chunks", state, cwd)


def full_digest(prompt: str, cwd: Path, **env: str) -> dict[str, Any]:
    """The state after all scripts of the graph; what stands beside the map included."""
    state = counts(prompt, cwd)
    state |= writes("busiest_minutes", state, cwd) | writes("find_silences", state, cwd)
    return state | writes("write_report", state, cwd, **env)


def app_log(text: str, cwd: Path) -> str:
    """The name of a new log holding `text`."""
    (cwd / "app.log").write_text(text, encoding="utf-8")
    return "app.log"


def severities(state: dict[str, Any]) -> dict[str, int]:
    return {name: count for name, count in state["digest"]["severities"].items() if count}


def families(state: dict[str, Any]) -> dict[str, int]:
    return {known["family"]: known["count"] for known in state["digest"]["families"]}


PLAIN = """\
2024-05-31 10:00:00,101 INFO app.web: started on 10.0.0.7:8080
2024-05-31 10:00:07,000 ERROR app.db: user 17 not found in '/srv/users'
2024-05-31 10:01:09,500 WARNING disk 91% full
2024-05-31 10:02:00,000 - app.db - ERROR - user 99 not found in '/srv/other'
2024-05-31 10:02:01,000 [error] app.db: user 4 not found in '/srv/x'
2024-05-31 10:02:02,000 DEBUG bye
"""


def test_plain_lines_are_counted_by_severity(tmp_path: Path) -> None:
    state = counts(app_log(PLAIN, tmp_path), tmp_path)

    assert severities(state) == {"error": 3, "warning": 1, "info": 1, "debug": 1}
    assert state["digest"]["lines"] == 6


def test_messages_that_differ_in_values_only_are_one_family(tmp_path: Path) -> None:
    state = counts(app_log(PLAIN, tmp_path), tmp_path)

    assert families(state) == {
        "app.db: user <n> not found in <text>": 2,
        "user <n> not found in <text>": 1,
        "disk <n>% full": 1,
    }
    first = state["digest"]["families"][0]
    assert first["first"] == {"line": 2, "time": "2024-05-31 10:00:07"}
    assert first["last"] == {"line": 5, "time": "2024-05-31 10:02:01"}


def test_the_timeline_counts_entries_and_errors_per_minute(tmp_path: Path) -> None:
    state = full_digest(app_log(PLAIN, tmp_path), tmp_path)

    assert state["timeline"]["minutes"] == [
        {"minute": "2024-05-31 10:00", "entries": 2, "errors": 1},
        {"minute": "2024-05-31 10:01", "entries": 1, "errors": 0},
        {"minute": "2024-05-31 10:02", "entries": 3, "errors": 2},
    ]


def test_a_page_of_the_runbook_stands_beside_the_family_it_fits(tmp_path: Path) -> None:
    state = full_digest(app_log(PLAIN, tmp_path), tmp_path)
    shapes = state["shapes"]
    page = (
        "[Source: ./runbook/users.md]\n# Unknown users\n\nAsk who they are.\n\n"
        "Seen as: `user not found`"
    )
    found = {"context": page, "sources": ["./runbook/users.md"]}
    state["pages"] = [found for _ in shapes]

    report = writes("write_report", state, tmp_path)["report"]

    assert sorted(shapes) == sorted(families(state))
    advice = "> **Unknown users.** Ask who they are. (./runbook/users.md)"
    assert report.count(advice) == 2  # not beside the disk: they share no word
    assert "Seen as" not in report
    nothing = [{"context": "", "sources": []} for _ in shapes]
    without = writes("write_report", {**state, "pages": nothing}, tmp_path)["report"]
    assert "\n> " not in without


MASKED = {
    "request 3f2b8c1e-9d4a-4e6f-8a7b-0c1d2e3f4a5b lost": "request <uuid> lost",
    "connect to 10.1.2.3:5432 via [fe80::1]:80 broke": "connect to <ip> via <ip> broke",
    "at 0x7ffdeadbeef of commit 9fceb02aa1": "at <hex> of commit <hex>",
    "open /var/lib/x.db or C:\\temp\\y.txt": "open <path> or <path>",
    "can't read \"a b\" nor 'c'": "can't read <text> nor <text>",
    "since 2024-05-31T10:00:00.5Z, 12:30:00": "since <time>, <time>",
    "took 1,024.5 ms for https://x.test/a?b=1": "took <n> ms for <url>",
}


def test_values_are_masked(tmp_path: Path) -> None:
    log = "".join(f"2024-05-31 10:00:00 ERROR {message}\n" for message in MASKED)
    state = counts(app_log(log, tmp_path), tmp_path)

    assert [known["family"] for known in state["digest"]["families"]] == list(MASKED.values())


def test_syslog_without_levels_is_judged_by_its_words(tmp_path: Path) -> None:
    text = """\
May  3 04:05:06 web1 sshd[812]: error: kex_exchange_identification: read: Connection reset
May  3 04:05:07 web1 CRON[900]: (root) CMD (run-parts /etc/cron.hourly)
May  3 04:05:08 web1 kernel: Out of memory: Killed process 4242 (java)
May  3 04:06:00 web1 backup[77]: finished with 0 errors
May  3 04:06:01 web1 sshd[813]: Connection refused by 192.0.2.1
"""
    state = full_digest(app_log(text, tmp_path), tmp_path)

    assert severities(state) == {"error": 2, "warning": 1, "unknown": 2}
    assert "Out of memory: Killed process <n> (java)" in families(state)
    assert state["timeline"]["first"] == "05-03 04:05"


def test_syslog_priorities_and_iso_stamps_are_understood(tmp_path: Path) -> None:
    text = """\
<34>1 2003-10-11T22:14:15.003Z host su 71 ID47 [x@1 iut="3"] 'su root' failed for lonvick
<34>1 2003-10-11T22:14:15.500Z host su 71 ID47 %s- no end of brackets
<165>1 2003-10-11T22:14:16.003Z host app - - - hello
<11>Oct 11 22:14:17 host app[9]: disk gone
2003-10-11T22:14:18.000001+02:00 host app[9]: error: disk gone
"""
    text %= "[a]" * 500  # would take for ever if brackets could be split in many ways
    state = counts(app_log(text, tmp_path), tmp_path)

    assert severities(state) == {"critical": 2, "error": 2, "info": 1}
    assert families(state)["disk gone"] == 2
    assert families(state)["<text> failed for lonvick"] == 1


def test_json_lines_are_read_in_their_dialects(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"level": "error", "msg": "user 1 gone", "time": "2024-05-31T10:00:00Z"},
        {"severity": "ERROR", "message": "user 2 gone", "timestamp": 1717149600},
        {"level": 50, "msg": "user 3 gone", "time": 1717149600000},
        {"log": {"level": "warn"}, "message": "slow", "@timestamp": "2024-05-31T10:01:00.5Z"},
        {"log": "2024-05-31 10:01:00 ERROR user 4 gone\n", "stream": "stderr"},
        {"levelname": "INFO", "event": "fine"},
    ]
    state = full_digest(
        app_log("".join(json.dumps(record) + "\n" for record in records), tmp_path), tmp_path
    )

    assert severities(state) == {"error": 4, "warning": 1, "info": 1}
    assert families(state) == {"user <n> gone": 4, "slow": 1}
    assert state["timeline"]["minutes"][0]["minute"] == "2024-05-31 10:00"


def test_odd_json_is_read_without_failing(tmp_path: Path) -> None:
    lines = [
        '{"level": "error", "message": "half a character: \\ud800"}',
        '{"level": "²", "message": 5}',
        '{"a": ' * 20_000,
        '{"level": "error", "time": 1e400}',
        "{not json}",
    ]
    state = full_digest(app_log("\n".join(lines), tmp_path), tmp_path)

    assert "half a character: ?" in families(state)
    assert encode(state).encode("utf-8")


def test_an_exception_inside_json_names_the_family(tmp_path: Path) -> None:
    trace = "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\nKeyError: 'id'"
    record = {"level": "error", "message": "request failed", "exc_info": trace}
    state = counts(app_log(json.dumps(record) + "\n", tmp_path), tmp_path)

    assert families(state) == {"KeyError: <text>": 1}


TRACEBACK = """\
Traceback (most recent call last):
  File "/srv/app/db.py", line {line}, in load
    return rows[{line}]
IndexError: list index {line} out of range
"""


def test_a_traceback_is_one_entry_named_by_its_final_line(tmp_path: Path) -> None:
    text = "".join(
        f"2024-05-31 10:0{n}:00 ERROR request {n} failed\n{TRACEBACK.format(line=n)}"
        for n in range(3)
    )
    state = full_digest(app_log(text, tmp_path), tmp_path)

    assert severities(state) == {"error": 3}
    assert families(state) == {"IndexError: list index <n> out of range": 3}
    assert "request 0 failed" in state["report"]


def test_a_traceback_below_an_info_line_is_an_error_of_its_own(tmp_path: Path) -> None:
    text = f"2024-05-31 10:00:00 INFO ready\n{TRACEBACK}2024-05-31 10:01:00 INFO again\n"
    state = counts(app_log(text, tmp_path), tmp_path)

    assert severities(state) == {"error": 1, "info": 2}
    assert state["digest"]["families"][0]["first"] == {"line": 2, "time": "2024-05-31 10:00:00"}


def test_chained_tracebacks_are_named_by_the_last_exception(tmp_path: Path) -> None:
    chain = "\nDuring handling of the above exception, another exception occurred:\n\n"
    second = 'Traceback (most recent call last):\n  File "b.py", line 1, in g\nRuntimeError: gone\n'
    state = counts(
        app_log(f"starting up\n{TRACEBACK}{chain}{second}shutting down\n", tmp_path), tmp_path
    )

    assert severities(state) == {"error": 1, "unknown": 2}
    assert families(state) == {"RuntimeError: gone": 1}


def test_tracebacks_of_two_processes_may_interleave_in_syslog(tmp_path: Path) -> None:
    lines = [*TRACEBACK.format(line=1).splitlines()]
    text = "".join(f"May  3 04:05:06 h app[{pid}]: {line}\n" for line in lines for pid in (11, 12))
    state = counts(app_log(f"{text}May  3 04:05:07 h app[11]: restarted\n", tmp_path), tmp_path)

    assert severities(state) == {"error": 2, "unknown": 1}
    assert families(state) == {"IndexError: list index <n> out of range": 2}


def test_exception_groups_are_named_by_the_group(tmp_path: Path) -> None:
    text = """\
  + Exception Group Traceback (most recent call last):
  |   File "a.py", line 1, in <module>
  | ExceptionGroup: two things (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "a.py", line 2, in f
    | ValueError: one
    +------------------------------------
"""
    state = counts(app_log(text, tmp_path), tmp_path)

    assert families(state) == {"ExceptionGroup: two things (<n> sub-exceptions)": 1}


def test_postgresql_details_belong_to_their_error(tmp_path: Path) -> None:
    text = """\
2024-05-31 10:00:00.100 UTC [71] app@shop ERROR:  relation "a" does not exist at character 15
2024-05-31 10:00:00.100 UTC [72] app@shop LOG:  connection authorized: user=app
2024-05-31 10:00:00.100 UTC [71] app@shop STATEMENT:  select *
\tfrom a
2024-05-31 10:00:01.000 UTC [70] FATAL:  sorry, too many clients already
"""
    state = full_digest(app_log(text, tmp_path), tmp_path)

    assert severities(state) == {"critical": 1, "error": 1, "info": 1}
    assert "STATEMENT:  select *" in state["report"]


SERVICES = {
    "12:M 31 May 2024 10:00:00.000 # Out of memory allocating 12 bytes": "warning",
    "2024/05/31 10:00:00 [error] 12#12: *1 open() failed": "error",
    "[Fri May 31 10:00:00.12 2024] [core:error] [pid 9] File missing": "error",
    '192.0.2.7 - - [31/May/2024:10:00:00 +0000] "GET / HTTP/1.1" 503 19': "error",
    "level=warn ts=2024-05-31T10:00:00Z caller=main.go:7 msg=slow": "warning",
    "F0531 10:00:00.123456       1 main.go:42] gone": "critical",
    "[2024-05-31 10:00:00,123: ERROR/MainProcess] task failed": "error",
    "\x1b[31m2024-05-31 10:00:00 CRITICAL red\x1b[0m": "critical",
}


def test_the_habits_of_known_services_are_read(tmp_path: Path) -> None:
    state = counts(app_log("\n".join(SERVICES), tmp_path), tmp_path)

    read = state["digest"]["families"]
    assert [known["severity"] for known in read] == list(SERVICES.values())
    times = {known["first"]["time"].removeprefix("2024-") for known in read}
    assert times == {"05-31 10:00:00"}


def test_logfmt_errors_are_told_apart_by_their_message(tmp_path: Path) -> None:
    text = """\
time="2024-05-31T10:00:00Z" level=error msg="user 1 \\"x\\" gone" user=1
time="2024-05-31T10:00:01Z" level=error msg="disk full" free=0
level=info msg=fine
"""
    state = counts(app_log(text, tmp_path), tmp_path)

    assert severities(state) == {"error": 2, "info": 1}
    assert families(state) == {"user <n> <text> gone": 1, "disk full": 1}


def test_chunks_give_the_same_digest_as_the_whole(tmp_path: Path) -> None:
    entry = "2024-05-31 10:{minute:02}:00 ERROR step {n}\n" + TRACEBACK
    text = "".join(entry.format(minute=n % 60, n=n, line=n) for n in range(3000))

    state = counts(app_log(text, tmp_path), tmp_path)

    assert len(state["chunks"]) > 4
    assert severities(state) == {"error": 3000}
    assert families(state) == {"IndexError: list index <n> out of range": 3000}
    assert state["digest"]["lines"] == 15_000
    assert state["digest"]["families"][0]["last"]["line"] == 14_996


def test_chunks_of_the_sample_add_up_to_the_whole(tmp_path: Path) -> None:
    state = counts("sample", tmp_path)
    whole = {"start": 0, "end": None, "first_line": 1}
    at_once = writes("analyse_chunk", {**state, "chunk": whole}, tmp_path)["output"]
    merged = writes("merge_chunks", {**state, "chunk_digests": [at_once]}, tmp_path)

    assert len(state["chunks"]) > 1
    assert state["digest"] == merged["digest"]


def test_headerless_tracebacks_are_never_cut_in_two(tmp_path: Path) -> None:
    text = "".join(f"working on {n}\n{TRACEBACK.format(line=n)}" for n in range(3000))

    state = counts(app_log(text, tmp_path), tmp_path)

    assert len(state["chunks"]) > 4
    assert severities(state) == {"error": 3000, "unknown": 3000}


def test_the_state_stays_small_for_a_large_log(tmp_path: Path) -> None:
    line = "2024-05-31 10:00:00 INFO " + "x" * 975 + "\n"
    (tmp_path / "app.log").write_text(line * 20_000, encoding="utf-8")

    split = writes("split_log", {"initial_prompt": "app.log"}, tmp_path)

    assert len(encode(split)) < 4_000
    assert sum(chunk["end"] - chunk["start"] for chunk in split["chunks"]) == 20_020_000


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
def test_any_encoding_is_read(codec: str, tmp_path: Path) -> None:
    text = "2024-05-31 10:00:00 ERROR größe\r\n2024-05-31 10:00:01 ERROR größe\r\n"
    (tmp_path / "app.log").write_bytes(text.encode(codec))

    state = counts("app.log", tmp_path)

    assert families(state) == {"größe": 2}


def test_a_rotated_gzip_log_is_read(tmp_path: Path) -> None:
    (tmp_path / "app.log.1.gz").write_bytes(gzip.compress(PLAIN.encode()))

    state = counts("app.log.1.gz", tmp_path)

    assert severities(state)["error"] == 3


def test_an_endless_line_is_cut_and_the_next_one_found(tmp_path: Path) -> None:
    text = f"2024-05-31 10:00:00 INFO {'x' * 300_000}\n2024-05-31 10:00:01 ERROR after\n"

    state = counts(app_log(text, tmp_path), tmp_path)

    assert severities(state) == {"error": 1, "info": 1}
    assert state["digest"]["families"][0]["first"]["line"] == 2


def test_binary_garbage_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes(bytes(range(256)) * 50)

    state = full_digest("app.log", tmp_path)

    assert state["report"]


def test_an_empty_log_has_an_empty_report(tmp_path: Path) -> None:
    state = full_digest(app_log("", tmp_path), tmp_path)

    assert state["digest"]["entries"] == 0
    assert "No errors." in state["report"]


def test_log_text_may_be_the_prompt_itself(tmp_path: Path) -> None:
    state = full_digest(PLAIN, tmp_path)

    assert severities(state)["error"] == 3
    assert "text of the prompt" in state["report"]


def test_a_blank_prompt_is_no_failure(tmp_path: Path) -> None:
    assert writes("find_log", {"initial_prompt": " \n"}, tmp_path) == {}


def test_a_missing_file_fails_naming_it(tmp_path: Path) -> None:
    process = run_script("find_log", {"initial_prompt": "gone.log"}, tmp_path)

    assert process.returncode == 1
    assert process.stderr.strip() == f"no file 'gone.log' in {tmp_path}"


def test_giving_up_fails_with_the_reason(tmp_path: Path) -> None:
    error = "Script node failed: exit code 1: no file 'gone.log' in /srv"
    process = run_script("give_up", {"error": error}, tmp_path)

    assert process.returncode == 1
    assert process.stderr.strip() == "no file 'gone.log' in /srv"


def test_silences_and_clocks_running_backwards_are_noticed(tmp_path: Path) -> None:
    busy = "".join(f"2024-05-31 10:00:{n:02} INFO tick\n" for n in range(60))
    later = "2024-05-31 10:09:59 INFO tick\n2024-05-31 10:05:00 INFO tick\n"

    state = full_digest(app_log(busy + later, tmp_path), tmp_path)

    assert state["silences"]["remarks"] == [
        "Silent for 9 min 0 s, from 2024-05-31 10:00:59 to 2024-05-31 10:09:59.",
        "Time goes backwards 1 times: several clocks, or a restart.",
    ]


def test_the_variable_limits_the_families_shown(tmp_path: Path) -> None:
    names = ("alpha", "beta", "gamma")
    lines = [f"2024-05-31 10:00:00 ERROR {name} broke\n" for name in names]
    (tmp_path / "app.log").write_text("".join(lines), encoding="utf-8")

    state = full_digest("app.log", tmp_path, LLM_AGENT_VAR_FAMILIES="1")

    assert "### 1. `alpha broke`" in state["report"]
    assert "### 2." not in state["report"]
    assert "Not shown: 2 more shapes, seen 2 times." in state["report"]


def test_the_model_reads_no_line_of_the_log(tmp_path: Path) -> None:
    state = full_digest(
        app_log("2024-05-31 10:00:00 ERROR key 'hunter2' refused\n", tmp_path), tmp_path
    )

    assert "key <text> refused" in state["brief"]
    assert "hunter2" not in state["brief"]


def test_the_graph_validates_without_a_remark() -> None:
    assert validate(load_agent(AGENT), Resources(search=AgentSearch(()))) == ()


def test_the_sample_holds_what_its_readme_says(tmp_path: Path) -> None:
    state = counts("sample", tmp_path)

    readme = (AGENT / "sample" / "README.md").read_text(encoding="utf-8")
    assert f"{state['digest']['lines']:,} lines" in readme
    assert f"{state['digest']['entries']:,} entries" in readme
    assert families(state)["deadlock detected"] > 3
    assert severities(state)["critical"] > 20
