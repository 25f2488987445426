"""Whatever is put in, it comes out as it was, or one paragraph says what is wrong with it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis

from sleipnir.scheduler.store.keys import BUNDLES, bundle_key
from tests.support.command_line import COMMAND, Sleipnir
from tests.support.redis_server import RedisServer
from tests.support.services import Fleet

END = "start: done\nnodes:\n  done: {type: end, output: '{{initial_prompt}}'}\n"
SCRIPT = "start: s\nnodes:\n  s: {type: script, script: PATH, next: d}\n  d: {type: end}\n"
# Nine levels of ten aliases each: a thousand million values.
BOMB = "x-a: &a [0,0,0,0,0,0,0,0,0,0]\n" + "".join(
    f"x-{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
UNUSABLE: dict[str, tuple[str | bytes, str]] = {
    "syntax": ("nodes: [\n", "graph.yaml:2:1: E003 cannot read graph.yaml: "),
    "latin": (b"description: caf\xe9\n", "E003 cannot read graph.yaml: line 1 is not UTF-8"),
    "control": ('description: "\0"\n', "E003 cannot read graph.yaml: character U+0000"),
    "large": (f"x-a: {'x' * 2**20}\n{END}", "E003 cannot read graph.yaml: it is larger than 1 MiB"),
    "twice": (f"name: twice\nname: twice\n{END}", "graph.yaml:2:1: E004 key 'name' appears twice"),
    "bomb": (BOMB + END, "E005 unsupported YAML: aliases expand to more than 10,000 values"),
    "deep": (f"x-a: {'[' * 5000}{']' * 5000}\n", "E005 unsupported YAML: nested more than"),
    "tag": (f"x-a: !!python/name:os.system ''\n{END}", "E005 unsupported YAML: the tag !!python/"),
    "merge": (f"initial_state: {{<<: {{a: 1}}}}\n{END}", "E005 unsupported YAML: the merge key"),
    "documents": (f"{END}---\n{END}", "E005 unsupported YAML: more than one document"),
    "empty": ("", "E005 unsupported YAML: the file is empty"),
    "list": ("- a\n", "E005 unsupported YAML: expected a mapping at the top, got a list"),
    "field": (f"nodez: 1\n{END}", "E006 unknown field 'nodez' in graph"),
    "nan": (f"initial_state: {{a: .nan}}\n{END}", "E008 graph.initial_state.a: expected a finite"),
    "outside": (SCRIPT.replace("PATH", "../../project"), "lies outside the agent directory"),
    "absolute": (SCRIPT.replace("PATH", "/bin/x.sh"), "E203 [s] node 's': script '/bin/x.sh'"),
}
COPY = """
start: copy
nodes:
  copy: {type: script, script: copy.py, next: done}
  done: {type: end, output: "{{copy}}"}
"""
COPIER = """
import json, os, pathlib
text = os.environ.get("GRAPH_STATE") or pathlib.Path(os.environ["GRAPH_STATE_FILE"]).read_text()
state = json.loads(text)
print(json.dumps({"copy": state.get("odd", state["initial_prompt"])}))
"""
NEEDY = """
variables: [{name: tone, description: how to say it, default: soft}]
start: s
nodes:
  s: {type: script, script: s.sh, next: done}
  done: {type: end, output: "{{error}}"}
"""
LOUD = """
start: s
nodes:
  s: {type: script, script: s.sh}
  done: {type: end}
"""


@pytest.fixture(scope="module")
def sleipnir(shared_engine: Sleipnir) -> Sleipnir:
    """The command, with agents that give back what they get."""
    shared_engine.write("echo", END)
    shared_engine.write("copy", COPY, {"copy.py": COPIER})
    shared_engine.write("toned", NEEDY, {"s.sh": "echo '{}'"})
    return shared_engine


def assert_says(said: str, *parts: str) -> None:
    """It is one short paragraph, with these parts."""
    assert "Traceback" not in said
    assert "This is a bug" not in said
    assert len(said.splitlines()) <= 3
    for part in parts:
        assert part in said


# ---- agents


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What `validate` says of all the unusable agents."""
    sleipnir = Sleipnir(tmp_path_factory.mktemp("unusable"))
    for name, (text, _) in UNUSABLE.items():
        (sleipnir.project / "agents" / name).mkdir(parents=True)
        file = sleipnir.project / "agents" / name / "graph.yaml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())

    done = sleipnir("validate", *UNUSABLE)

    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.parametrize("name", UNUSABLE)
def test_what_is_wrong_with_a_graph_is_said_with_its_place(findings: str, name: str) -> None:
    own = [line for line in findings.splitlines() if f"/agents/{name}/graph.yaml:" in line]

    assert any(UNUSABLE[name][1] in line for line in own)


def test_an_unreadable_graph_is_not_run(sleipnir: Sleipnir) -> None:
    sleipnir.write("torn", "nodes: [")

    done = sleipnir("run", "torn")

    assert (done.returncode, done.stdout) == (3, "")
    assert_says(done.stderr, "agents/torn/graph.yaml:3:1: E003")


def make_link_out(place: Path) -> None:
    place.symlink_to("/etc/hostname")


def make_link_to_nowhere(place: Path) -> None:
    place.symlink_to("gone")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (make_link_out, "the symlink leads outside the agent directory"),
        (make_link_to_nowhere, "broken symlink"),
        (os.mkfifo, "it is neither a file nor a directory"),
    ],
)
def test_only_files_of_the_agent_are_packed(tmp_path: Path, make: Any, why: str) -> None:
    sleipnir = Sleipnir(tmp_path)
    make(sleipnir.write("odd", END) / "odd")

    done = sleipnir("submit", "odd")

    assert (done.returncode, done.stdout) == (3, "")
    assert_says(done.stderr, f"error: agent 'odd': cannot pack 'agents/odd/odd': {why}")


def test_a_damaged_bundle_fails_the_run(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet, redis.Redis.from_url(fleet.redis.url) as client:
        fleet.sleipnir.write("echo", END)
        run_id = fleet.sleipnir("submit", "echo").stdout.strip()
        ((digest, _),) = client.zscan_iter(BUNDLES)
        client.append(bundle_key(digest.decode()), "x")

        fleet.start_worker()
        found = fleet.sleipnir.json("watch", run_id)

    assert (found["status"], found["error"]["code"]) == ("failed", "R023")
    assert found["error"]["message"].startswith("the agent cannot be loaded: ")


# ---- texts and numbers


TEXTS = {
    "NUL": "a\0b",
    "control": "\x01\x1b[31m\x7f\x85\r\n\t",
    "unicode": "é 中 🐎 \u2028 \u202e \ufeff",
    "lone surrogates": "\ud83d alone \udc00",
    "syntax": "{{initial_prompt}} {{ }} $(id) `id` '\" \\u0000",
    "empty": "",
}


def test_texts_come_back_from_states_and_scripts_as_they_were(sleipnir: Sleipnir) -> None:
    found = sleipnir.json("run", "copy", "--set", f"odd={json.dumps(TEXTS)}")

    assert (found["state"]["odd"], found["state"]["copy"]) == (TEXTS, TEXTS)
    assert json.loads(found["output"]) == TEXTS


def test_prompts_of_a_batch_come_back_as_they_were(sleipnir: Sleipnir, tmp_path: Path) -> None:
    prompts = list(TEXTS.values())
    file = tmp_path / "in.jsonl"
    file.write_text("".join(f"{json.dumps(prompt)}\n" for prompt in prompts))

    done = sleipnir("batch", "copy", str(file), "--ordered")

    assert done.returncode == 0
    assert [json.loads(line)["output"] for line in done.stdout.split("\n")[:-1]] == prompts


def test_a_prompt_that_is_not_utf_8_is_taken_as_it_is(sleipnir: Sleipnir) -> None:
    done = sleipnir("run", "copy", "a\udcffb")

    # On the terminal, what UTF-8 cannot hold is shown as an escape.
    assert (done.returncode, done.stdout) == (0, "a\\udcffb\n")


def test_standard_input_that_is_no_text_is_refused(sleipnir: Sleipnir) -> None:
    done = subprocess.run(
        [*COMMAND, "run", "copy", "-"],
        cwd=sleipnir.project,
        env=sleipnir.environment,
        input=b"caf\xe9",
        capture_output=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"error: standard input is not UTF-8 text")


def test_a_byte_order_mark_is_no_part_of_a_prompt(sleipnir: Sleipnir) -> None:
    done = sleipnir("run", "copy", "-", stdin="\ufeffhello")

    assert (done.returncode, done.stdout) == (0, "hello\n")


def test_a_prompt_of_a_megabyte_comes_back(sleipnir: Sleipnir) -> None:
    prompt = "0123456789abcde\n" * 2**16

    done = sleipnir("run", "copy", "-", stdin=prompt)

    assert (done.returncode, done.stdout) == (0, prompt)


def test_a_seed_is_json_or_else_a_text(sleipnir: Sleipnir) -> None:
    deep = "[" * 60_000 + "]" * 60_000  # deeper than any Python goes
    seeds = {"large": str(10**40), "fraction": "-0.1", "list": "[]", "object": "{}", "null": "null"}
    texts = {"too_large": "1e400", "no_number": "NaN", "deep": deep, "\udcff": "\udcfe"}

    flags = [f"--set={key}={text}" for key, text in {**seeds, **texts}.items()]
    state = sleipnir.json("run", "copy", *flags)["state"]

    values = {"large": 10**40, "fraction": -0.1, "list": [], "object": {}, "null": None}
    assert state == state | values | texts


def test_a_variable_no_program_can_have_is_a_failure_of_the_script(sleipnir: Sleipnir) -> None:
    done = sleipnir("run", "toned", TONED_VARIABLES=json.dumps({"tone": "a\0b"}))

    assert (done.returncode, done.stdout) == (
        0,
        "Script node failed: cannot start: embedded null byte\n",
    )


def test_what_a_script_says_moves_no_cursor(sleipnir: Sleipnir) -> None:
    sleipnir.write("loud", LOUD, {"s.sh": r"printf 'a\0b\033[2J\a' >&2; exit 1"})

    failed = sleipnir("run", "loud")
    run_id = json.loads(sleipnir("ps", "--json", "--agent", "loud").stdout)["run_id"]
    told = [failed.stderr, sleipnir("show", run_id).stdout, sleipnir("logs", run_id).stdout]

    assert failed.returncode == 1
    # The reason leaves out escape sequences; the log keeps them, shown as text.
    for text, shown in zip(told, (r"a\x00b\x07", r"a\x00b\x07", r"a\x00b\x1b[2J\x07"), strict=True):
        assert shown in text
        assert "\x1b" not in text


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--set", "=1"], "'' is not of the form KEY=VALUE"),
        (["--var", "tone"], "'tone' is not of the form NAME=VALUE"),
        (["--answer", "yes"], "'yes' is not of the form NODE=TEXT"),
        (["--timeout", "0"], "0.0 is not in the range x>0"),
        (["--timeout", "nan"], "nan is not a finite number"),
        (["--workdir", "/no/such"], "'/no/such' does not exist"),
        (["--workdir", "/dev/null"], "'/dev/null' is not a directory"),
    ],
)
def test_malformed_flags_are_named(sleipnir: Sleipnir, flags: list[str], message: str) -> None:
    done = sleipnir("run", "toned", *flags)

    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_every_line_of_a_batch_that_cannot_be_used_is_named(
    sleipnir: Sleipnir, tmp_path: Path
) -> None:
    file = tmp_path / "in.jsonl"
    deep = "[" * 60_000 + "]" * 60_000  # deeper than any Python goes
    lines = ['"fine"', '{"state": {"a": 1e400}}', f'{{"state": {{"a": {deep}}}}}', "[1]"]
    lines += ['{"promt": "x"}', '{"prompt": 5}', '{"id": ""}', '{"id": 1}', '{"id": "1"}']
    lines += [r'{"id": "\ud800"}']
    file.write_bytes("\n".join(lines).encode() + b'\n"\xff"\n')

    done = sleipnir("batch", "copy", str(file))

    assert (done.returncode, done.stdout) == (2, "")
    for part in (
        "9 lines of ",
        "line 2: this is not JSON (1e400 is not a valid JSON number)",
        "line 3: this is not JSON (it is nested more than 200 levels deep)",
        "line 4: expected a string or an object",
        "line 5: unknown field 'promt' (known: id, prompt, state, vars, answers, labels)",
        "line 6: 'prompt': input should be a valid string",
        "line 7: 'id' is empty",
        "line 9: ",
        "line 10: this is not UTF-8",
        "line 11: this is not UTF-8",
    ):
        assert part in done.stderr
    assert "Traceback" not in done.stderr


# ---- engines


@pytest.fixture(scope="module")
def evicting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis that drops keys when it is full."""
    with RedisServer(tmp_path_factory.mktemp("evicting")) as server:
        with redis.Redis.from_url(server.url) as client:
            client.config_set("maxmemory-policy", "allkeys-lru")
        yield server.url


@pytest.mark.parametrize("command", [["run", "echo"], ["worker"], ["scheduler"]])
def test_a_redis_that_evicts_keys_is_not_used(
    sleipnir: Sleipnir, evicting: str, command: list[str]
) -> None:
    done = sleipnir(*command, "--redis", evicting)

    assert (done.returncode, done.stdout) == (7, "")
    assert_says(done.stderr, "policy is allkeys-lru", "CONFIG SET maxmemory-policy noeviction")


@pytest.fixture
def web_port() -> Iterator[int]:
    """Where something answers that is no Redis."""

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1024)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_what_answers_without_being_redis_is_not_used(sleipnir: Sleipnir, web_port: int) -> None:
    done = sleipnir("run", "echo", "--redis", f"redis://127.0.0.1:{web_port}")

    assert (done.returncode, done.stdout) == (7, "")
    assert_says(done.stderr, f"cannot reach Redis at redis://127.0.0.1:{web_port}: ", "--redis")


@pytest.mark.parametrize(
    "url",
    [
        "redis://me:hid@den/1@127.0.0.1:1",
        "redis://127.0.0.1:99999/0?password=hidden",
        "http://127.0.0.1",
        "redis://[::1",
    ],
)
def test_an_address_that_leads_nowhere_is_named_without_its_password(
    sleipnir: Sleipnir, url: str
) -> None:
    done = sleipnir("ps", "--redis", url)

    assert (done.returncode, done.stdout) == (7, "")
    assert_says(done.stderr, "error: cannot reach Redis at ", "SLEIPNIR_REDIS_URL")
    is_malformed = " connecting to " not in done.stderr  # then starting a server is no remedy
    assert ("correct the URL" in done.stderr) == is_malformed
    assert "hid" not in done.stderr


@pytest.mark.parametrize("where", ["SLEIPNIR_DATA_DIR", "HOME"])
def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path, where: str) -> None:
    sleipnir = Sleipnir(tmp_path)
    sleipnir.write("echo", END)
    for name in ("SLEIPNIR_DATA_DIR", "XDG_DATA_HOME"):
        sleipnir.environment.pop(name, None)
    (tmp_path / "file").touch()

    done = sleipnir("run", "echo", **{where: str(tmp_path / "file")})

    assert (done.returncode, done.stdout) == (7, "")
    assert_says(done.stderr, f"cannot use the data directory {tmp_path}/file", "SLEIPNIR_DATA_DIR")


@pytest.mark.parametrize("mark", [None, b"1", b"17", b"\xff\x1b[2J" * 100])
def test_data_of_another_format_is_refused_and_left_as_it_is(
    tmp_path: Path, mark: bytes | None
) -> None:
    sleipnir = Sleipnir(tmp_path)
    sleipnir.write("echo", END)
    redis = tmp_path / "data" / "redis"
    (redis / "appendonlydir").mkdir(parents=True)
    if mark is not None:
        (redis / "format").write_bytes(mark)

    done = sleipnir("run", "echo")

    assert (done.returncode, done.stdout) == (7, "")
    assert_says(
        done.stderr,
        "was written by another version of Sleipnir",
        f"mv {tmp_path}/data {tmp_path}/data.old",
    )
    assert not list((redis / "appendonlydir").iterdir())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lease_z: 3", "config.yaml: unknown setting 'lease_z'; did you mean 'lease_s'?"),
        ("lease_s: soon", "lease_s (from "),
        ("a: [", "config.yaml: line 1: "),
        ("- a", "config.yaml: expected a mapping of settings"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_named(
    tmp_path: Path, text: str, message: str
) -> None:
    sleipnir = Sleipnir(tmp_path)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.yaml").write_text(text)

    done = sleipnir("ps")

    assert (done.returncode, done.stdout) == (2, "")
    assert_says(done.stderr, message)
