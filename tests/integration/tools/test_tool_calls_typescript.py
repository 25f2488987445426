"""Calls of TypeScript tools: with a stand-in for npx, and with the real one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sleipnir.worker.tools.environment import WRAPPERS
from tests.support.tool_calls import ToolBundle

TOOL = """
/** Adds up.
 * @param a - first
 */
export async function add(a: number, b?: number, c: number | null = 100): Promise<number> {
  console.log("adding");
  return a + (b ?? 10) + (c ?? 0);
}
/** Gives back. */
export function same(value: string) { return { value }; }
/** Says. */
export function say(value: string) { return value; }
/** Gives nothing. */
export function nothing() { setInterval(() => {}, 1000); return null; }
/** Fails. */
export function fail(value: string) { throw new Error(`cannot ${value}`); }
"""
# node by itself cannot run TypeScript everywhere; what it is started with can be checked there.
STAND_IN = """#!/usr/bin/env bash
printf '%s\\n' "$@" > argv
env > environment
cp "${LLM_TOOL_DATA_FILE%/*}/parameters" parameters
"""


@pytest.fixture
def bundle(tmp_path: Path) -> ToolBundle:
    return ToolBundle(tmp_path)


def put_npx(bundle: ToolBundle, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    directory = bundle.root / "bin"
    directory.mkdir()
    (directory / "npx").write_text(script)
    (directory / "npx").chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")


def test_npx_runs_the_wrapper_and_may_install_nothing(
    bundle: ToolBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_npx(bundle, monkeypatch, STAND_IN)
    function = bundle.own(TOOL, "tools.ts")["add"]

    bundle.value(function, {"a": 1})

    workdir = bundle.context.workdir
    expected = ["tsx", str(WRAPPERS / "call.ts"), str(function.file), "add"]
    assert (workdir / "argv").read_text().splitlines() == expected
    assert (workdir / "parameters").read_text() == '["a","b","c"]'
    assert "npm_config_yes=false\n" in (workdir / "environment").read_text()


def test_a_worker_without_node_says_so(bundle: ToolBundle, monkeypatch: pytest.MonkeyPatch) -> None:
    function = bundle.own(TOOL, "tools.ts")["add"]
    monkeypatch.setenv("PATH", str(bundle.root))

    assert bundle.value(function, {"a": 1}) == {
        "tool_call_error": "add: cannot start: 'npx' is not on the PATH of this worker; "
        "TypeScript needs node and tsx"
    }


def test_a_worker_without_tsx_says_so(bundle: ToolBundle, monkeypatch: pytest.MonkeyPatch) -> None:
    put_npx(bundle, monkeypatch, "#!/bin/sh\necho 'npm error canceled' >&2; exit 1\n")
    function = bundle.own(TOOL, "tools.ts")["add"]

    assert bundle.value(function, {"a": 1}) == {
        "tool_call_error": "add: cannot start: npx found no tsx; "
        "install it on this worker: npm install --global tsx",
        "stderr": "npm error canceled\n",
    }


def test_a_value_that_was_not_declared_is_refused_before_anything_runs(
    bundle: ToolBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_npx(bundle, monkeypatch, STAND_IN)
    functions = bundle.own(TOOL, "tools.ts")

    assert bundle.value(functions["add"], {"a": "1", "b": None}) == {
        "tool_call_error": "add: the call was refused",
        "stderr": "error: argument 'a' must be of type number, got \"1\"",
    }
    assert not list(bundle.context.workdir.glob("*"))


def test_functions_are_called_as_declared(bundle: ToolBundle, node_modules: Path) -> None:
    functions = bundle.own(TOOL, "tools.ts")
    bundle.context.workdir.mkdir(exist_ok=True)
    (bundle.context.workdir / "node_modules").symlink_to(node_modules)

    assert bundle.value(functions["add"], {"a": 1}) == 111
    assert bundle.value(functions["add"], {"a": 1, "c": None}) == 11
    assert bundle.narrated == ["adding"] * 2
    assert bundle.value(functions["same"], {"value": "é ❤\n"}) == {"value": "é ❤\n"}
    assert bundle.value(functions["say"], {"value": "plain"}) == {"output": "plain"}
    assert bundle.value(functions["nothing"]) == "DONE"
    failed = bundle.value(functions["fail"], {"value": "go on"})
    assert failed["tool_call_error"] == "fail: exit code 1"
    assert "Error: cannot go on" in failed["stderr"]
