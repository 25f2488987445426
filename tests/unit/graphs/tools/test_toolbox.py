"""All functions of one agent, and the choice of some."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from sleipnir.graphs.tools.library import ToolLibrary
from sleipnir.graphs.tools.reader import read_tool_file
from sleipnir.graphs.tools.shipped import SHIPPED_TOOLS
from sleipnir.graphs.tools.toolbox import Toolbox, ToolSelection

JOBS = "# @cmd List\nlist_jobs() { :; }\n# @cmd Stop\nstop_job() { :; }\n"
RUN = 'def run():\n    "Runs."\n'
OWN = 'def classify(url: str):\n    "Classifies."\n'


def toolbox(
    tmp_path: Path,
    global_tools: Sequence[str],
    tools: Mapping[str, str],
    own: Mapping[str, str] = {},
) -> Toolbox:
    for directory, files in (("tools", tools), ("agent", own)):
        (tmp_path / directory).mkdir()
        for name, text in files.items():
            (tmp_path / directory / name).write_text(text)
    library = ToolLibrary([tmp_path / "tools"], {"team": "jobs, fs", "other": "spare"})
    return Toolbox(global_tools, library, tmp_path / "agent")


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    tools = {"jobs.sh": JOBS, "fs.py": RUN, "spare.py": RUN}
    return toolbox(tmp_path, ["fs", "team"], tools, {"tools.py": OWN})


def test_functions_come_in_the_order_of_global_tools_then_the_agents_own(box: Toolbox) -> None:
    assert [f.name for f in box.functions] == ["fs", "list_jobs", "stop_job", "classify"]
    assert [f.own for f in box.functions] == [False, False, False, True]
    assert box.findings == ()


@pytest.mark.parametrize(
    ("entries", "names"),
    [
        (["stop_job"], ["stop_job"]),
        (["jobs"], ["list_jobs", "stop_job"]),
        (["jobs.sh", "list_jobs"], ["list_jobs", "stop_job"]),
        (["stop_job", "jobs"], ["stop_job", "list_jobs"]),
        (["classify", "team"], ["classify", "list_jobs", "stop_job", "fs"]),
        ([], []),
    ],
)
def test_entries_select_functions_once_and_in_their_order(
    box: Toolbox, entries: list[str], names: list[str]
) -> None:
    found = box.select(entries)

    assert [function.name for function in found.functions] == names
    assert (found.servers, found.others) == ((), ())


def test_servers_and_what_else_there_may_be_are_told_apart(box: Toolbox) -> None:
    found = box.select(["mcp:web", "spare", "search", "mcp:web", "other", "search"])

    assert found == ToolSelection(servers=("web",), others=("spare", "search", "other"))


def test_what_exists_without_being_the_agents_is_known(box: Toolbox) -> None:
    assert box.exists("spare")
    assert box.exists("other")
    assert not box.exists("nothing")


def test_one_name_in_two_files_is_an_error_of_the_second(tmp_path: Path) -> None:
    box = toolbox(tmp_path, ["one", "two"], {"one.py": RUN, "two.sh": "# @cmd D\none() { :; }\n"})

    (finding,) = box.findings
    assert (finding.code, finding.file, finding.line) == ("E606", str(tmp_path / "tools/two.sh"), 1)
    assert finding.message == f"function 'one' is already declared in {tmp_path / 'tools/one.py'}"
    assert [function.entry for function in box.functions] == ["run"]


def test_one_name_twice_in_a_file_is_an_error(tmp_path: Path) -> None:
    own = 'def a_b():\n    "A."\ndef A_b():\n    "B."\n'

    (finding,) = toolbox(tmp_path, [], {}, {"tools.py": own}).findings

    assert (finding.line, finding.message) == (3, "function 'a_b' is already declared in line 1")


def test_an_agent_has_one_tools_file(tmp_path: Path) -> None:
    box = toolbox(tmp_path, [], {}, {"tools.py": OWN, "tools.sh": JOBS, "tools.md": "notes"})

    assert [f"{found.code} {found.message}" for found in box.findings] == [
        "E602 more than one tools file (tools.py, tools.sh); keep one"
    ]


@pytest.mark.parametrize("file", sorted(SHIPPED_TOOLS.glob("*.*")), ids=lambda file: file.name)
def test_shipped_tools_declare_one_function_each(file: Path) -> None:
    found = read_tool_file(file, own=False)

    assert found.findings == ()
    assert len(found.functions) == 1
