"""Keeping child processes: restarts, their order at the end, stragglers."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from sleipnir.scheduler.embedded.supervisor import ChildProcess, Pauses, Supervisor
from tests.support.processes import children_of, is_alive
from tests.support.wait import wait_until

# Both tell that they are ready by making the file they are given.
STUBBORN = "trap '' TERM; sleep 600 & touch $0; wait"
TELLS_ITS_END = "trap 'echo $1 >> $2; exit' TERM; touch $0; while :; do sleep 0.01; done"


def shell(
    name: str, script: str, *arguments: str | Path, outlives_others: bool = False
) -> ChildProcess:
    return ChildProcess(
        name, ["/bin/sh", "-c", script, *map(str, arguments)], outlives_others=outlives_others
    )


def end(supervisor: Supervisor) -> None:
    supervisor.stop()
    supervisor.run()


def test_pauses_grow_while_lives_are_short() -> None:
    pauses = Pauses()

    waits = [pauses.after(0.1) for _ in range(8)]

    assert waits == [0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]


def test_a_long_life_ends_the_pauses() -> None:
    pauses = Pauses()
    for _ in range(8):
        pauses.after(0.1)

    waits = [pauses.after(60), pauses.after(0.1)]

    assert waits == [0.0, 0.1]


def test_a_child_that_dies_is_started_again(tmp_path: Path) -> None:
    supervisor = Supervisor(grace_s=10)
    # The third life stops its supervisor, which is this process.
    script = 'echo life >> $0; test "$(wc -l < $0)" -lt 3 || kill -TERM $PPID; exit 1'

    supervisor.start(shell("mortal", script, tmp_path / "lives"))
    supervisor.run()

    assert (tmp_path / "lives").read_text().split() == ["life"] * 3


def test_a_child_that_gives_up_is_not_started_again(tmp_path: Path) -> None:
    supervisor = Supervisor(grace_s=10)
    giving_up = ChildProcess(
        "hopeless",
        ["/bin/sh", "-c", "echo life >> $0; exit 2", str(tmp_path / "lives")],
        gives_up_with=2,
    )
    # Its fourth life ends them all: by then the other one would have had a second.
    script = 'echo life >> $0; test "$(wc -l < $0)" -lt 4 || kill -TERM $PPID; exit 1'

    supervisor.start(giving_up)
    supervisor.start(shell("mortal", script, tmp_path / "others"))
    supervisor.run()

    assert (tmp_path / "lives").read_text().split() == ["life"]


def test_a_child_that_cannot_start_ends_all(tmp_path: Path) -> None:
    supervisor = Supervisor(grace_s=10)
    failing = ChildProcess(
        "unfit",
        ["/bin/sh", "-c", "echo life >> $0; exit 7", str(tmp_path / "lives")],
        ends_all_with=7,
    )

    supervisor.start(failing)
    supervisor.run()

    assert (tmp_path / "lives").read_text().split() == ["life"] * 3
    assert supervisor.exit_code == 7


def test_children_that_are_over_leave_the_others_and_the_last_ends_all(tmp_path: Path) -> None:
    supervisor = Supervisor(grace_s=10)
    lives = tmp_path / "lives"
    # The second ends only once the supervisor has seen the first one go.
    programs = {
        "first": "echo first >> $0; exit 10",
        "second": "while [ -e /proc/$(cat $0.pid) ]; do sleep 0.05; done;"
        "echo second >> $0; exit 10",
    }
    for name, program in programs.items():
        argv = ["/bin/sh", "-c", program, str(lives)]
        started = supervisor.start(ChildProcess(name, argv, is_over_with=10))
        if name == "first":
            lives.with_name("lives.pid").write_text(str(started.pid))

    supervisor.run()

    assert lives.read_text().split() == ["first", "second"]
    assert supervisor.exit_code == 0


def test_without_the_one_that_is_retired_last_all_ends(tmp_path: Path) -> None:
    supervisor = Supervisor(grace_s=10)
    argv = ["/bin/sh", "-c", "exit 10"]
    over = supervisor.start(ChildProcess("over", argv, is_over_with=10))
    supervisor.start(
        shell("successor", TELLS_ITS_END, tmp_path / "ready", "ended", tmp_path / "end")
    )
    wait_until((tmp_path / "ready").exists, "the successor runs")
    wait_until(lambda: over.poll() is not None, "nobody wants its predecessor")

    supervisor.call_in(0, lambda: supervisor.retire("successor"))
    supervisor.run()

    assert (tmp_path / "end").read_text() == "ended\n"


def test_a_child_that_was_told_to_end_is_not_told_again(tmp_path: Path) -> None:
    supervisor = Supervisor(grace_s=10)
    asked, ready, go = (tmp_path / name for name in ("asked", "ready", "go"))
    script = "trap 'echo asked >> $0' TERM; touch $1; until test -e $2; do sleep 0.01; done"
    supervisor.start(shell("one", script, asked, ready, go))
    wait_until(ready.exists, "it runs")

    def retire() -> None:
        wait_until(asked.exists, "it was told to end with the supervisor")
        supervisor.retire("one")
        go.touch()

    def stop() -> None:
        supervisor.stop()
        supervisor.call_in(0, retire)

    supervisor.call_in(0, stop)
    supervisor.run()

    assert asked.read_text() == "asked\n"


def test_a_child_that_is_there_already_stays_as_it_is() -> None:
    supervisor = Supervisor(grace_s=10)
    first = supervisor.start(shell("one", "sleep 600"))

    second = supervisor.start(shell("one", "sleep 600"))

    assert second.pid == first.pid
    end(supervisor)
    assert not is_alive(first.pid)


def test_a_straggler_is_killed_with_all_it_started(tmp_path: Path) -> None:
    supervisor = Supervisor(grace_s=0.1)
    straggler = supervisor.start(shell("stubborn", STUBBORN, tmp_path / "ready"))
    wait_until((tmp_path / "ready").exists, "it ignores SIGTERM")
    (started,) = children_of(straggler.pid)

    end(supervisor)

    assert straggler.returncode == -signal.SIGKILL
    wait_until(lambda: not is_alive(started), "what it started is gone")


def test_who_outlives_the_others_ends_last(tmp_path: Path) -> None:
    supervisor = Supervisor(grace_s=10)
    ends = tmp_path / "ends"
    for name, last in (("store", True), ("user", False)):
        ready = tmp_path / name
        supervisor.start(shell(name, TELLS_ITS_END, ready, name, ends, outlives_others=last))
        wait_until(ready.exists, f"{name} is ready")

    end(supervisor)

    assert ends.read_text().split() == ["user", "store"]


def test_signals_are_as_before_once_it_has_run() -> None:
    before = signal.getsignal(signal.SIGTERM)

    end(Supervisor(grace_s=1))

    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's help is Linux's")
def test_children_die_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    supervisor = Supervisor(grace_s=10)
    program = (
        "import pathlib, sys\n"
        "from sleipnir.scheduler.embedded.supervisor import ChildProcess, Supervisor\n"
        "supervisor = Supervisor(grace_s=10)\n"
        "child = supervisor.start(ChildProcess('child', ['sleep', '600']))\n"
        "pathlib.Path(sys.argv[1]).write_text(f'{child.pid}\\n')\n"
        "supervisor.run()\n"
    )
    pid_file = tmp_path / "pid"
    parent = supervisor.start(
        ChildProcess("parent", [sys.executable, "-c", program, str(pid_file)])
    )
    wait_until(lambda: pid_file.exists() and pid_file.read_text(), "it has a child")

    parent.kill()

    wait_until(lambda: not is_alive(int(pid_file.read_text())), "the child is gone")
    end(supervisor)
