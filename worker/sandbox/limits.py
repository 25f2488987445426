"""The resource limits of agents' programs, if the settings have any."""

from __future__ import annotations

import resource
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from sleipnir.records import dataclass
from sleipnir.scheduler.config.settings import MIB, Settings

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

    def impose_on(self, process: subprocess.Popen[bytes]) -> None:
        """Limit a program that has just been started, and everything it will start."""
        if CAN_BE_IMPOSED and self != NO_LIMITS:
            self._impose_on(process.pid)

    def _impose_on(self, pid: int) -> None:
        with suppress(ProcessLookupError, FileNotFoundError):  # it has exited
            if self.memory_mb is not None:
                # Not the address space: Node.js reserves many times what it uses.
                _lower(pid, resource.RLIMIT_DATA, self.memory_mb * MIB)
            if self.cpu_s is not None:
                _lower(pid, resource.RLIMIT_CPU, self.cpu_s, _CPU_GRACE_S)
            # From now on children inherit the limit; some may have been started before.
            for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                self._impose_on(int(child))

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


def _lower(pid: int, kind: int, limit: int, grace: int = 0) -> None:
    """Lower a limit, never raise it; the hard limit is `grace` above the soft one."""
    _, most = resource.prlimit(pid, kind)
    hard = limit + grace if most == resource.RLIM_INFINITY else min(limit + grace, most)
    resource.prlimit(pid, kind, (min(limit, hard), hard))
