"""What tools find in their environment, and what never reaches them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sleipnir.graphs.tools.shipped import SHIPPED_LIBRARY
from tests.support.tool_calls import ToolBundle

SHOW = '''
import os
def {name}(a: str = "", b: str = ""):
    """Shows its environment."""
    data = open(os.environ["LLM_TOOL_DATA_FILE"]).read()
    return {{**os.environ, "cwd": os.getcwd(), "data": data}}
'''


@pytest.fixture
def bundle(tmp_path: Path) -> ToolBundle:
    return ToolBundle(tmp_path)


def of_global_tool(bundle: ToolBundle, arguments: Any = None, **context: Any) -> dict[str, str]:
    tool = bundle.tool(SHOW.format(name="run"), "show.py")
    found: dict[str, str] = bundle.value(tool, arguments, **context)
    return found


def of_own_function(bundle: ToolBundle, **context: Any) -> dict[str, str]:
    functions = bundle.own(SHOW.format(name="look"), "tools.py")
    found: dict[str, str] = bundle.value(functions["look"], **context)
    return found


def test_a_global_tool_learns_where_it_is(bundle: ToolBundle, tmp_path: Path) -> None:
    found = of_global_tool(bundle, {"a": "é"})

    assert (
        found.items()
        >= {
            "LLM_ROOT_DIR": str(bundle.tools),
            "LLM_CONFIG_DIR": str(bundle.root),
            "LLM_TOOL_NAME": "show",
            "LLM_TOOL_CACHE_DIR": str(tmp_path / "cache" / "tools" / "show"),
            "LLM_AGENT_NAME": "tester",
            "LLM_TOOL_RAW_JSON": '{"a":"é"}',
            "LLM_PROMPT_UTILS_FILE": str(SHIPPED_LIBRARY / "utils.sh"),
            "SLEIPNIR_RUN_ID": "run-1",
            "SLEIPNIR_IDEMPOTENCY_KEY": "key-1",
            "NO_COLOR": "1",
            "cwd": str(tmp_path / "work"),
            "data": '{"a":"é"}',
        }.items()
    )
    assert not found.keys() & {"LLM_AGENT_FUNC", "LLM_AGENT_ROOT_DIR", "AUTO_CONFIRM"}
    assert Path(found["LLM_TOOL_CACHE_DIR"]).is_dir()


def test_an_own_function_learns_where_its_agent_is(bundle: ToolBundle, tmp_path: Path) -> None:
    found = of_own_function(bundle)

    assert (
        found.items()
        >= {
            "LLM_ROOT_DIR": str(bundle.agent),
            "LLM_AGENT_ROOT_DIR": str(bundle.agent),
            "LLM_AGENT_DATA_DIR": str(bundle.agent),
            "LLM_AGENT_CACHE_DIR": str(tmp_path / "cache" / "agents" / "tester"),
            "LLM_AGENT_FUNC": "look",
            "LLM_AGENT_NAME": "tester",
            "LLM_AGENT_RAW_JSON": "{}",
            "data": "{}",
        }.items()
    )
    assert not found.keys() & {"LLM_TOOL_NAME", "LLM_TOOL_CACHE_DIR"}
    assert Path(found["LLM_AGENT_CACHE_DIR"]).is_dir()


def test_variables_of_the_agent_are_passed_on(bundle: ToolBundle) -> None:
    found = of_global_tool(
        bundle, variables={"api-url": "http://x", "deep": "1"}, auto_confirm=True
    )

    assert found["LLM_AGENT_VAR_API_URL"] == "http://x"
    assert found["LLM_AGENT_VAR_DEEP"] == "1"
    assert found["AUTO_CONFIRM"] == "true"


@pytest.mark.parametrize(("length", "inline"), [(32_000, True), (33_000, False)])
def test_large_arguments_come_in_a_file_only(bundle: ToolBundle, length: int, inline: bool) -> None:
    arguments = {"a": "x" * length}

    found = of_global_tool(bundle, arguments)

    assert json.loads(found["data"]) == arguments
    assert ("LLM_TOOL_RAW_JSON" in found, "LLM_AGENT_RAW_JSON" in found) == (inline, inline)


def test_only_what_is_allowed_comes_from_the_worker(
    bundle: ToolBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("OPENAI_API_KEY", "not for tools")
    monkeypatch.setenv("ALLOWED", "by a setting")

    found = of_global_tool(bundle, tool_env=("ALLOWED",))

    assert found["LC_ALL"] == "C.UTF-8"
    assert found["ALLOWED"] == "by a setting"
    assert "OPENAI_API_KEY" not in found


def test_what_a_bash_file_declares_comes_from_the_worker(
    bundle: ToolBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DECLARED", "declared")
    source = """
    # @describe Declares
    # @env DECLARED! by the file
    main() { echo "$DECLARED" >> "$LLM_OUTPUT"; }
    """

    assert bundle.output(source) == "declared\n"


@pytest.mark.parametrize("name", ["SLEIPNIR_BROKER_URL", "CELERY_BROKER_URL"])
def test_settings_of_the_engine_never_reach_a_tool(
    bundle: ToolBundle, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "redis://secret")
    tool = bundle.tool(
        f"""
        # @describe Wants too much
        # @env {name}
        main() {{ echo "got ${{{name}:-nothing}}" >> "$LLM_OUTPUT"; }}
        """
    )

    assert bundle.value(tool, tool_env=(name,)) == {"output": "got nothing\n"}


def test_env_files_yield_to_all_else(bundle: ToolBundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    (bundle.tools / ".env").write_text("export A='of tools'\nB=of tools\nTZ=x\nLLM_OUTPUT=x\n")
    (bundle.agent / ".env").write_text("B=of agent\nSLEIPNIR_RUN_ID=x\n")

    found = of_global_tool(bundle)

    assert (found["A"], found["B"], found["TZ"]) == ("of tools", "of agent", "UTC")
    assert found["SLEIPNIR_RUN_ID"] == "run-1"


@pytest.mark.parametrize("place", ["agent", "tools"])
def test_env_files_make_no_settings_of_the_engine(bundle: ToolBundle, place: str) -> None:
    written = "LLM_ALLOW_PRIVATE_ADDRESSES=1\nLLM_TOOL_ROOT=/\n"
    (getattr(bundle, place) / ".env").write_text(written)

    found = of_global_tool(bundle)

    assert not found.keys() & {"LLM_ALLOW_PRIVATE_ADDRESSES", "LLM_TOOL_ROOT"}


def test_without_an_agent_no_agent_is_named(bundle: ToolBundle) -> None:
    assert "LLM_AGENT_NAME" not in of_global_tool(bundle, agent="")


def test_settings_for_the_shipped_tools_reach_them(bundle: ToolBundle, tmp_path: Path) -> None:
    found = of_global_tool(bundle, allow_private_addresses=True, tool_root=tmp_path)

    assert found["LLM_ALLOW_PRIVATE_ADDRESSES"] == "1"
    assert found["LLM_TOOL_ROOT"] == str(tmp_path)


def test_an_own_function_does_not_see_the_variables_of_global_tools(bundle: ToolBundle) -> None:
    (bundle.tools / ".env").write_text("A=of tools\n")
    (bundle.agent / ".env").write_text("B=of agent\n")

    found = of_own_function(bundle)

    assert "A" not in found
    assert found["B"] == "of agent"


def test_stdin_is_empty(bundle: ToolBundle) -> None:
    tool = bundle.tool('# @describe Reads\nmain() { wc -c >> "$LLM_OUTPUT"; }')

    assert bundle.value(tool) == 0
