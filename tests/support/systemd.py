"""Units of deploy/systemd without systemd: their processes, and what these tell it."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from sleipnir.scheduler.embedded.supervisor import die_with_parent
from tests.support.command_line import COMMAND
from tests.support.pages import ROOT
from tests.support.wait import wait_until

# On a busy machine, with Redis away for a moment.
READY_S = 120


class Systemd:
    """Hears what a process tells systemd."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.setblocking(False)
        self.heard: list[str] = []

    def has_heard(self, state: str) -> bool:
        try:
            while True:
                self.heard.append(self._socket.recv(4096).decode())
        except BlockingIOError:
            return state in self.heard

    def close(self) -> None:
        self._socket.close()


class Host:
    """A machine with the files that the units read: /etc/sleipnir, /var/lib/sleipnir.

    Args:
        environment: what the administrator writes into /etc/sleipnir/environment.
    """

    def __init__(self, directory: Path, redis_url: str, environment: Mapping[str, str]) -> None:
        self.directory = directory
        self.state = directory / "var"
        self.state.mkdir(parents=True)
        self._environment = {
            # What systemd sets for a unit with a user.
            "PATH": os.environ["PATH"],
            "HOME": str(self.state),
            **environment,
            "SLEIPNIR_MACHINE": directory.name,
        }
        credential = directory / "redis-url"
        credential.touch(0o600)
        credential.write_text(redis_url)

    def start(self, unit: str, *arguments: str) -> Unit:
        """Start a unit, and wait until systemd would say that it has started.

        Args:
            arguments: what a drop-in puts behind its command.
        """
        text = (ROOT / "deploy" / "systemd" / f"sleipnir-{unit}.service").read_text()
        ((_, *command),) = map(shlex.split, re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE))
        variables = dict(re.findall(r"^Environment=(\w+)=(.*)$", text, re.MULTILINE))
        for name, value in variables.items():
            there = value.replace("/var/lib/sleipnir", str(self.state))
            there = there.replace("/etc/sleipnir", str(self.directory))
            variables[name] = there.replace("%d", str(self.directory))
        return Unit(self, unit, [*command, *arguments], {**self._environment, **variables})


class Unit:
    """A process that is started again when it dies, as `Restart=always` does."""

    def __init__(
        self, host: Host, name: str, command: list[str], environment: Mapping[str, str]
    ) -> None:
        self._name = f"{name} of {host.directory.name}"
        self._command = command
        self._notify = host.directory / f"notify-{len(list(host.directory.iterdir()))}"
        self._systemd = Systemd(self._notify)
        self._environment = {**environment, "NOTIFY_SOCKET": str(self._notify)}
        self.log = self._notify.with_suffix(".log")
        self._start()

    def _start(self) -> None:
        self._systemd.heard.clear()
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [*COMMAND, *self._command],
                cwd="/",
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,
                preexec_fn=die_with_parent(signal.SIGKILL),
            )
        wait_until(lambda: self._systemd.has_heard("READY=1"), f"{self._name} is ready", READY_S)

    def kill(self) -> None:
        """Kill it as a crash would; its children die with it."""
        self._process.kill()
        self._process.wait(30)

    def kill_and_restart(self) -> None:
        """Kill it, and wait until its next process is ready."""
        self.kill()
        self._systemd.has_heard("")  # what the dead one has told
        self._start()

    def stop(self) -> int:
        """Stop it as `systemctl stop` does; return its exit code."""
        self._process.terminate()
        return self._process.wait(60)

    def close(self) -> None:
        """End it whatever it does."""
        self.kill()
        self._systemd.close()
