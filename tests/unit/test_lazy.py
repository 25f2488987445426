"""Modules that are imported lazily come with their first use, and nothing heavy comes with help."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from sleipnir.graphs.tools.shipped import SHIPPED_LIBRARY
from sleipnir.lazy import is_made, lazy_object, load
from tests.support.forked_command import SHARED
from tests.support.pages import ROOT

_PACKAGES = ("graphs", "scheduler", "worker")
# What a command line that only explains itself has no use for.
_HEAVY = (
    "celery",
    "faiss",
    "jsonschema",
    "litellm",
    "pydantic",
    "redis",
    "rich",
    "yaml",
    "sleipnir.scheduler.client.client",
)
# `bench` brings what it measures.
_LIST_HEAVY = f"""
import sys
import threading
import click
from sleipnir.scheduler.cli.app import VERBS, cli
context = click.Context(cli)
for verb in VERBS:
    if verb != "bench":
        cli.get_command(context, verb).get_help(context)
print(*(name for name in {_HEAVY!r} if name in sys.modules))
"""


def _run(lines: str) -> dict[str, Any]:
    """The names of a module of these lines."""
    space: dict[str, Any] = {"__name__": "importer"}
    exec(f"from sleipnir.lazy import lazy_imports\n{lines}", space)
    return space


def test_a_lazy_module_is_imported_by_its_first_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "seldom_used.py").write_text("ANSWER = 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    space = _run("with lazy_imports():\n    import seldom_used as seldom")
    assert "seldom_used" not in sys.modules
    assert space["seldom"].ANSWER == 42
    # From now on it is the module itself.
    assert space["seldom"] is sys.modules.pop("seldom_used")


def test_a_module_can_be_imported_before_its_first_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "soon_used.py").write_text("ANSWER = 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    space = _run("with lazy_imports():\n    import soon_used")
    loaded = load(space["soon_used"])
    assert loaded is sys.modules.pop("soon_used")
    assert load(loaded) is loaded


def test_a_module_that_another_thread_is_importing_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, goes_on = threading.Event(), threading.Event()
    monkeypatch.setattr(threading, "of_half_imported", (began, goes_on), raising=False)
    (tmp_path / "half_imported.py").write_text(
        "import threading\nbegan, goes_on = threading.of_half_imported\n"
        "began.set()\nassert goes_on.wait(60)\nVALUE = 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    other = threading.Thread(target=import_module, args=("half_imported",))
    other.start()
    assert began.wait(60)

    space = _run("with lazy_imports():\n    import half_imported")

    assert not hasattr(sys.modules["half_imported"], "VALUE")
    assert space["half_imported"] is not sys.modules["half_imported"]
    goes_on.set()
    assert space["half_imported"].VALUE == 1
    other.join()


def test_a_missing_module_is_reported_at_its_first_use() -> None:
    space = _run("with lazy_imports():\n    from sleipnir import absent")
    with pytest.raises(ModuleNotFoundError, match=r"sleipnir\.absent"):
        space["absent"].anything  # noqa: B018 - looking it up is the use


def test_only_the_imports_of_the_block_are_lazy() -> None:
    space = _run("with lazy_imports():\n    import antigravity\nimport string")
    assert space["string"] is sys.modules["string"]
    assert "antigravity" not in sys.modules


def test_a_submodule_is_named_from_its_package() -> None:
    with pytest.raises(ImportError, match=r"write `from xml\.dom import …`"):
        _run("with lazy_imports():\n    import xml.dom.pulldom")


def test_what_is_imported_lazily_are_modules() -> None:
    # What others have loaded is one, and need not say where it is from: kombu does not.
    names = (name for name in _imported_lazily() if name not in sys.modules)
    missing = [name for name in names if find_spec(name) is None]
    assert not missing


def test_what_forked_commands_of_tests_share_are_modules() -> None:
    # multiprocessing says nothing of one that is missing: all commands would become slow.
    assert [name for name in SHARED if find_spec(name) is None] == []


def test_help_of_all_verbs_imports_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", _LIST_HEAVY], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    ("modules", "without"),
    [
        # A worker reads the graphs of bundles, which have been checked.
        (
            "sleipnir.worker.process.main, sleipnir.graphs.bundles.parsed, "
            "sleipnir.worker.executors.end, sleipnir.worker.executors.script",
            {"pydantic", "jsonschema", "litellm", "faiss", "mcp"},
        ),
        # `validate` looks at files.
        ("sleipnir.scheduler.client.preparation", {"redis", "celery", "litellm", "faiss", "mcp"}),
    ],
)
def test_what_is_started_often_does_without_what_it_does_not_use(
    modules: str, without: set[str]
) -> None:
    code = f"import sys, {modules}; print(*({without!r} & set(sys.modules)))"

    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == []


def _imported_lazily() -> Iterator[str]:
    for package in _PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            text = file.read_text(encoding="utf-8")
            if "with lazy_imports():" in text:
                yield from _names(ast.parse(text))


def _names(module: ast.Module) -> Iterator[str]:
    for block in module.body:
        if isinstance(block, ast.With) and ast.unparse(block.items[0]) == "lazy_imports()":
            for line in block.body:
                if isinstance(line, ast.ImportFrom):
                    yield from (f"{line.module}.{part.name}" for part in line.names)
                elif isinstance(line, ast.Import):
                    yield from (part.name for part in line.names)


def test_a_client_that_only_looks_imports_no_validation_no_language_and_no_engine() -> None:
    code = (
        "import sys; import sleipnir.scheduler.client.client, sleipnir.scheduler.embedded.attach; "
        "print(*{'pydantic', 'yaml', 'jsonschema', 'sleipnir.scheduler.runs.events', "
        "'sleipnir.scheduler.embedded.process', 'sleipnir.graphs.schema'} & sys.modules.keys())"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_what_is_made_when_used_is_made_once() -> None:
    made: list[str] = []

    def make() -> str:
        made.append("once")
        return "text"

    text = lazy_object(make)
    assert not is_made(text)
    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(lambda _: text.upper(), range(32))) == {"TEXT"}
    assert is_made(text)
    assert made == ["once"]


def test_what_cannot_be_made_now_is_tried_again() -> None:
    replies = iter([ConnectionError("away"), "text"])

    def make() -> str:
        reply = next(replies)
        if isinstance(reply, Exception):
            raise reply
        return reply

    text = lazy_object(make)
    with pytest.raises(ConnectionError, match="away"):
        text.upper()
    assert not is_made(text)
    assert text.upper() == "TEXT"


def test_a_worker_starts_without_what_its_nodes_may_not_need() -> None:
    code = (
        "import sys; from sleipnir.worker.process import main; main.main; "
        "print(*(name for name in sys.modules "
        "if name.startswith(('httpx', 'jsonschema', 'numpy', 'sleipnir.worker.'))))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    started = {".".join(name.split(".")[:3]) for name in done.stdout.split()}
    assert "sleipnir.worker.delivery" in started
    assert not started & {
        "httpx",
        "jsonschema",
        "numpy",
        "sleipnir.worker.conversation",
        "sleipnir.worker.knowledge",
        "sleipnir.worker.llm",
        "sleipnir.worker.mcp",
        "sleipnir.worker.tools",
    }


def test_a_fetch_of_a_tool_imports_only_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    # An address that is refused: as far as a fetch gets without a network.
    fetch = (
        "from sleipnir import web\n"
        "try: web.fetch(web.get('http://127.0.0.1/'), allow_private=False)\n"
        "except web.FetchError: pass"
    )
    seldom = "import sys\nprint(*{'dataclasses', 'urllib.request'} & sys.modules.keys())"

    done = subprocess.run(
        [sys.executable, "-S", "-c", f"{fetch}\n{seldom}"],
        env={**os.environ, "PYTHONPATH": str(SHIPPED_LIBRARY)},
        cwd=SHIPPED_LIBRARY,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == ""


def test_nothing_of_opentelemetry_is_imported_without_a_collector() -> None:
    code = """
import sys
import threading
from sleipnir.scheduler.process.telemetry import environment
environment.leave_out_unused()
from sleipnir.scheduler.store import run_store
from sleipnir.scheduler.store.telemetry.run_spans import RunSpans
from sleipnir.worker.process import bootstrap
assert RunSpans.of_process(None) is None
print(*(name for name in sys.modules if "telemetry" in name and sys.modules[name]))
"""
    environment = {name: value for name, value in os.environ.items() if "OTEL" not in name}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    # mcp and redis-py import its interface, which costs little; these of ours know nothing of it.
    names = {name for name in done.stdout.split() if not name.startswith("opentelemetry")}
    assert "opentelemetry.sdk" not in done.stdout
    assert {name.partition("telemetry")[2] for name in names} == {
        *("", ".environment", ".run_spans", ".visit_spans"),
    }


def test_nothing_of_apprise_is_imported_without_notifications() -> None:
    code = """
import sys
import threading
from sleipnir.scheduler.client.hooks.notifications import require_notifications
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.hooks.notifier import Notifier
require_notifications(Settings())
Notifier(Settings())
assert "apprise" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
