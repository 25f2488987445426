"""Files with secrets, which other users of the machine must not be able to read."""

from __future__ import annotations

import os
from pathlib import Path

from sleipnir.graphs.files import reason
from sleipnir.scheduler.errors import SettingInvalid

_FOR_OTHERS = 0o077
_LONGEST = 4096


def read_private(setting: str, file: Path) -> str:
    """Return the text of a file of at most 4096 characters, without space around it.

    Files on a mount that cannot be written, as those of containers are, may have any mode.

    Args:
        setting: the setting that names it, for errors.

    Raises:
        SettingInvalid: it cannot be read, is too long, or other users can read it.
    """
    try:
        with file.open(encoding="ascii") as opened:
            if os.fstat(opened.fileno()).st_mode & _FOR_OTHERS and not _is_read_only(file):
                raise SettingInvalid(
                    f"{setting}: {file} is open to other users: run `chmod 600 {file}`"
                )
            text = opened.read(_LONGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingInvalid(f"{setting}: cannot read {file}: {reason(error)}") from error
    if len(text) > _LONGEST:
        raise SettingInvalid(f"{setting}: {file} has more than {_LONGEST} characters")
    return text.strip()


def _is_read_only(file: Path) -> bool:
    return bool(os.statvfs(file).f_flag & os.ST_RDONLY)
