"""Supervises child processes: starts them, restarts them when they die, stops them in order.

Standard library only, and little of it: the engine's own process is this loop, and the start of
every command on the embedded engine waits for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from time import monotonic
from types import FrameType

from sleipnir.records import dataclass
from sleipnir.scheduler.embedded import orphans
from sleipnir.scheduler.process.backoff import RESTART
from sleipnir.scheduler.process.health.verdict import SHORT_LIFE_S, ChildHealth
from sleipnir.scheduler.process.log_lines import log_line

# After so many of them in a row, all with `ends_all_with`, the supervisor ends as well.
_MOST_SHORT_LIVES = 3

# The exit code of a worker that has ended because it was asked to over Redis.
DRAINED = 10

_BETWEEN_LOOKS_S = 0.5

# How long a child that outlives the others gets to save its data.
LAST_GRACE_S = 30.0

_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_STDERR = 2
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """A process to keep running; `name` identifies it among its siblings and in the log."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] | None = None  # None: the supervisor's own
    umask: int = -1  # -1: the supervisor's own
    pass_fds: tuple[int, ...] = ()
    # The signal that it gets if the supervisor is killed (Linux only).
    death_signal: signal.Signals = signal.SIGKILL
    # Called before SIGTERM, for programs with a faster way to exit.
    farewell: Callable[[], None] | None = None
    # Stopped after all others, and given its full time even in a hurry: it keeps their data.
    outlives_others: bool = False
    # Returns why it must not be stopped yet, or None; a second signal overrides it.
    holds_back: Callable[[], str | None] = lambda: None
    # The exit code that means that a restart would fail in the same way.
    gives_up_with: int | None = None
    # The exit code that, at several starts in a row, ends the supervisor with it.
    ends_all_with: int | None = None
    # The exit code that means that it is not wanted any more; the supervisor ends with the last.
    is_over_with: int | None = None


@dataclass(slots=True)
class Pauses:
    """The pauses between restarts of something that keeps dying."""

    _restarts: int = 0  # since the last long life

    def after(self, lived_s: float) -> float:
        """Return the pause after a life of `lived_s`: 0 after a long one, else doubling to 5 s."""
        if lived_s >= SHORT_LIFE_S:
            self._restarts = 0
        pause_s = RESTART.pause_s(self._restarts) if self._restarts else 0.0
        self._restarts += 1
        return pause_s


def die_with_parent(death_signal: signal.Signals) -> Callable[[], None] | None:
    """Return a `preexec_fn` that makes the kernel send `death_signal` when the parent dies."""
    if sys.platform != "linux":
        return None
    parent, libc = os.getpid(), ctypes.CDLL(None)

    def tie() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(death_signal))
        if os.getppid() != parent:  # the parent died before the line above
            os._exit(1)

    return tie


@dataclass(slots=True)
class _Member:
    """A child with its current process; `starts_at` is set while it waits to be restarted."""

    child: ChildProcess
    process: subprocess.Popen[bytes] | None = None
    wanted: bool = True
    began_at: float = 0.0
    known_since: float = field(default_factory=monotonic)
    last_life_s: float | None = None  # of the process before
    starts_at: float | None = None
    pauses: Pauses = field(default_factory=Pauses)
    short_lives: int = 0  # in a row, that ended with `ends_all_with`

    def start(self) -> None:
        self.starts_at, self.began_at = None, monotonic()
        child = self.child
        self.process = subprocess.Popen(
            list(child.argv),
            env=child.env,
            stdin=subprocess.DEVNULL,
            # Children's output goes to the log; standard output belongs to the command.
            stdout=_STDERR,
            # A group of its own: Ctrl-C is for the supervisor, which stops children in order.
            process_group=0,
            umask=child.umask,
            pass_fds=child.pass_fds,
            preexec_fn=die_with_parent(child.death_signal),
        )

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def ask_to_end(self) -> None:
        if self.child.farewell is not None:
            self.child.farewell()
        if self.process is not None:
            self.process.terminate()

    def kill(self) -> None:
        """Kill the process and its process group."""
        if self.process is not None and self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Supervisor:
    """Keeps children running until told to stop; runs in the main thread to get its signals.

    It sleeps in one `select`, to which others may add sockets.
    """

    def __init__(self, *, grace_s: float, adopts: bool = False) -> None:
        """With `adopts`, also end what children leave running, in whatever session it is.

        This process must then have no children but those it has now and the supervisor's.
        """
        # How long stopping children get before they are killed.
        self.grace_s = grace_s
        self._members: dict[str, _Member] = {}
        self._selector = selectors.DefaultSelector()
        self._stopping = False
        self.exit_code = 0  # to end with after `run`
        self._signals_seen = 0
        self._appointments: list[tuple[float, Callable[[], None]]] = []
        self._adopts = adopts and orphans.adopt()
        self._others = frozenset(orphans.children()) if self._adopts else frozenset()

    def start(self, child: ChildProcess) -> subprocess.Popen[bytes]:
        """Start a child, unless one of that name exists already.

        Raises:
            OSError: its program cannot be started.
        """
        member = self._members.get(child.name)
        if member is None:
            member = _Member(child)
            member.start()
            self._members[child.name] = member
        assert member.process is not None  # set by its first start
        return member.process

    def children(self) -> list[ChildHealth]:
        """Return the children that are to run, as of now."""
        now = monotonic()
        return [
            ChildHealth(
                name,
                is_alive=member.alive(),
                age_s=now - member.began_at,
                known_s=now - member.known_since,
                last_life_s=member.last_life_s,
            )
            for name, member in self._members.items()
            if member.wanted
        ]

    def restart(self, name: str) -> None:
        """Terminate a child, so that it is restarted."""
        process = self._members[name].process
        if process is not None:
            process.terminate()

    def retire(self, name: str) -> None:
        """Tell a child to end, for good, while the others go on; it has its time.

        Without others that are to go on, the supervisor ends as well.
        """
        member = self._members[name]
        if not member.wanted:  # a second signal would have it end twice
            return
        member.wanted = False
        member.ask_to_end()
        self.call_in(self.grace_s, lambda: self._end_late([member]))
        self._stop_if_none_is_wanted()

    def keeps(self, name: str) -> bool:
        """Return whether a child is restarted when it dies."""
        return self._members[name].wanted and not self._stopping

    def forget(self, name: str) -> bool:
        """Forget a retired child if it has ended; return whether it has."""
        if self._members[name].alive():
            return False
        del self._members[name]
        return True

    def watch(self, source: socket.socket, on_readable: Callable[[], None]) -> None:
        """Call `on_readable` whenever `source` has something to read."""
        self._selector.register(source, selectors.EVENT_READ, on_readable)

    def unwatch(self, source: socket.socket) -> None:
        """Undo `watch`."""
        self._selector.unregister(source)

    def call_in(self, seconds: float, action: Callable[[], None]) -> None:
        """Call `action` once, from the loop."""
        self._appointments.append((monotonic() + seconds, action))

    def stop(self) -> None:
        """Make `run` return once all children have ended."""
        self._stopping = True

    def run(self, *, on_stopping: Callable[[], None] = lambda: None) -> None:
        """Keep the children running until `stop()`, SIGTERM, SIGINT or SIGHUP; then end them.

        A second signal kills slow ones.
        """
        with self._hearing_signals():
            while not self._stopping:
                self._turn()
            on_stopping()
            self.end_all()

    def end_all(self) -> None:
        """End all children; return when all are gone."""
        guests = [m for m in self._members.values() if not m.child.outlives_others]
        hosts = [m for m in self._members.values() if m.child.outlives_others]
        self._end(guests, self.grace_s, hurry=True)
        for host in hosts:
            self._wait_until_stoppable(host)
        self._end(hosts, LAST_GRACE_S, hurry=False)

    def _wait_until_stoppable(self, member: _Member) -> None:
        """Wait while a child must not be stopped, unless a second signal insists."""
        told = False
        while self._signals_seen < 2 and member.alive() and (why := member.child.holds_back()):
            if not told:
                say(f"cannot stop yet: {why}; another signal (Ctrl-C) stops it anyway")
            told = True
            self._turn(monotonic() + _BETWEEN_LOOKS_S)

    def _end(self, members: Sequence[_Member], grace_s: float, *, hurry: bool) -> None:
        for member in members:
            if member.wanted:  # others have ended, or were told to
                member.wanted = False
                member.ask_to_end()
        deadline = monotonic() + grace_s
        while any(m.alive() for m in members) and monotonic() < deadline:
            if hurry and self._signals_seen > 1:
                break
            self._turn(deadline)
        self._end_late(members)

    def _end_late(self, members: Sequence[_Member]) -> None:
        """Kill those that have not ended in time, and what they have left."""
        for member in members:
            if member.alive():
                say(f"{member.child.name} did not exit in time; killed")
                member.kill()
        self._end_orphans()

    def _end_orphans(self) -> None:
        """End what dead children left running, such as programs of a killed worker."""
        if self._adopts:
            ours = {m.process.pid for m in self._members.values() if m.process is not None}
            orphans.end_children(ours | self._others)

    def _turn(self, deadline: float | None = None) -> None:
        """Wait for one event: a signal, a readable socket, a due start or call."""
        due = [m.starts_at for m in self._members.values() if self._tend(m) and m.starts_at]
        if self._stopping and deadline is None:
            return  # a child that cannot start has stopped us
        due += [instant for instant, _ in self._appointments]
        if deadline is not None:
            due.append(deadline)
        timeout_s = max(0.0, min(due) - monotonic()) if due else None
        for key, _ in self._selector.select(timeout_s):
            key.data()
        now = monotonic()
        kept = [action for instant, action in self._appointments if instant <= now]
        self._appointments = [made for made in self._appointments if made[0] > now]
        for action in kept:
            action()

    def _tend(self, member: _Member) -> bool:
        """Notice a child's death and restart it when due; return whether it is wanted."""
        if not member.wanted or member.alive():
            return member.wanted
        now = monotonic()
        if member.starts_at is None:
            assert member.process is not None  # set by its first start
            code = member.process.returncode
            if code == member.child.gives_up_with:
                member.wanted = False
                say(f"{member.child.name} cannot run, see its message; continuing without it")
                return False
            if self._is_over(member, code):
                return False
            if self._is_hopeless(member, code, now - member.began_at):
                return False
            member.last_life_s = now - member.began_at
            pause_s = member.pauses.after(member.last_life_s)
            member.starts_at = now + pause_s
            say(f"{member.child.name} exited with {code}; restarting in {pause_s:.1f} s")
            self._end_orphans()
        if member.starts_at <= now:
            try:
                member.start()
            except OSError as error:
                say(f"{member.child.name} cannot be started: {error}")
                member.starts_at = now + RESTART.longest_s
        return True

    def _is_over(self, member: _Member, code: int) -> bool:
        """Stop everything if the last child is not wanted any more; return whether this one is."""
        if code != member.child.is_over_with:
            return False
        member.wanted = False
        say(f"{member.child.name} has ended, as it was asked to; it is not started again")
        self._stop_if_none_is_wanted()
        return True

    def _stop_if_none_is_wanted(self) -> None:
        if not any(member.wanted for member in self._members.values()):
            self.stop()

    def _is_hopeless(self, member: _Member, code: int, lived_s: float) -> bool:
        """Stop everything if a child cannot start; return whether it cannot."""
        if code != member.child.ends_all_with or lived_s >= SHORT_LIFE_S:
            member.short_lives = 0
            return False
        member.short_lives += 1
        if member.short_lives < _MOST_SHORT_LIVES:
            return False
        member.wanted = False
        say(f"{member.child.name} failed {_MOST_SHORT_LIVES} starts in a row; see its message")
        self.exit_code = code
        self.stop()
        return True

    @contextlib.contextmanager
    def _hearing_signals(self) -> Iterator[None]:
        """Make signals readable on a socket, so that none is missed before a `select`."""
        ours, interpreters = socket.socketpair()
        ours.setblocking(False)
        interpreters.setblocking(False)
        heard = (*_STOPPING, signal.SIGCHLD)
        before = {number: signal.signal(number, _heard) for number in heard}
        wakeup_before = signal.set_wakeup_fd(interpreters.fileno())
        self.watch(ours, lambda: self._take_signals(ours.recv(64)))
        try:
            yield
        finally:
            self.unwatch(ours)
            signal.set_wakeup_fd(wakeup_before)
            for number, handler in before.items():
                signal.signal(number, handler)
            ours.close()
            interpreters.close()

    def _take_signals(self, numbers: bytes) -> None:
        asked = sum(number in _STOPPING for number in numbers)
        if asked:
            self._signals_seen += asked
            self.stop()


def _heard(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the signal is handled when its byte is read from the wakeup descriptor."""


def say(text: str) -> None:
    """Print a line for the operator, to the log or the terminal of `sleipnir up`."""
    with contextlib.suppress(OSError):  # nobody reads it any more
        sys.stderr.write(f"{log_line('sleipnir engine', 'info', text)}\n")
        sys.stderr.flush()
