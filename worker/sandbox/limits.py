"""The resource limits of agents' programs, if the settings have any."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator, Sequence

from sleipnir.records import dataclass
from sleipnir.scheduler.config.settings import MIB, Settings

_KIB = 1024
# CPU seconds after SIGXCPU until a program that ignores it is killed.
_CPU_GRACE_S = 5
_SIGXCPU = (-signal.SIGXCPU, 128 + signal.SIGXCPU)  # the child itself, or a child of its shell
# What interpreters say last when they run out of memory, in lower case.
_OUT_OF_MEMORY = (b"memoryerror", b"cannot allocate", b"out of memory", b"bad_alloc")
_LAST_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class ProgramLimits:
    """Limits for each single process; None: unlimited. Enforced on Linux only."""

    memory_mb: int | None = None
    cpu_s: int | None = None

    @classmethod
    def of(cls, settings: Settings) -> ProgramLimits:
        return cls(settings.program_memory_mb, settings.program_cpu_s)

    def imposed_on(self, command: Sequence[str]) -> Sequence[str]:
        """Return a command that limits itself before it becomes the program.

        By a shell that the program then replaces: code of ours between fork and exec could deadlock
        a process with threads, and after exec the program is faster than whoever limits it.
        """
        if not CAN_BE_IMPOSED or self == NO_LIMITS:
            return command
        return ("/bin/sh", "-c", f'{"".join(self._steps())}exec "$@"', "sh", *command)

    def _steps(self) -> Iterator[str]:
        if self.memory_mb is not None:
            # Not the address space: Node.js reserves many times what it uses.
            soft, hard = _lowered(resource.RLIMIT_DATA, self.memory_mb * MIB)
            yield f"ulimit -S -d {soft // _KIB} && ulimit -H -d {hard // _KIB} && "
        if self.cpu_s is not None:
            soft, hard = _lowered(resource.RLIMIT_CPU, self.cpu_s, _CPU_GRACE_S)
            yield f"ulimit -S -t {soft} && ulimit -H -t {hard} && "

    def exceeded(self, returncode: int, stderr: bytes) -> str | None:
        """Return which limit ended a program, in words, as far as can be told; else None."""
        if self.cpu_s is not None and returncode in _SIGXCPU:
            return f"exceeded {self.cpu_s} s of CPU time (program_cpu_s)"
        said = stderr[-_LAST_BYTES:].lower()
        if self.memory_mb is not None and returncode and any(w in said for w in _OUT_OF_MEMORY):
            return f"exceeded {self.memory_mb} MB of memory (program_memory_mb)"
        return None


NO_LIMITS = ProgramLimits()
CAN_BE_IMPOSED = hasattr(resource, "prlimit")


def _lowered(kind: int, limit: int, grace: int = 0) -> tuple[int, int]:
    """Return the soft and the hard limit of a program, which has ours if these are lower.

    The hard limit is `grace` above the soft one.
    """
    _, most = resource.getrlimit(kind)
    hard = limit + grace if most == resource.RLIM_INFINITY else min(limit + grace, most)
    return min(limit, hard), hard
