"""Finds the environment variables that a program reads, as far as its text shows."""

from __future__ import annotations

import re

# os.environ["NAME"], environ.get('NAME'), os.getenv("NAME"); process.env.NAME, process.env["NAME"]
_IN_CODE = re.compile(
    r"""\b(?:environ(?:\.(?:get|pop|setdefault)\(|\[)|getenv\()\s{0,20}["'](\w+)["']"""
    r"""|\bprocess\.env(?:\.|\[\s{0,20}["'])(\w+)"""
)
_SET_IN_CODE = re.compile(
    r"""\b(?:environ|process\.env)(?:\.|\[\s{0,20}["'])(\w+)(?:["']\s{0,20}\])?\s{0,20}=(?!=)"""
)
# $NAME, ${NAME}, ${NAME:-default}: in upper case, as exported variables usually are.
_IN_SHELL = re.compile(r"\$\{?([A-Z][A-Z0-9_]+)\b")
# Not `NAME=${NAME:-default}`, which keeps a value from the environment.
_SET_IN_SHELL = re.compile(r"""(?<![\w$\{])([A-Z][A-Z0-9_]+)(?:\+?=(?!"?\$\{?\1\b)|=\()""")
_FILLED_IN_SHELL = re.compile(r"\b(?:read|for|mapfile|readarray|printf\s-v)\b([^\n;|&]{1,200})")
_NAME = re.compile(r"\b[A-Z][A-Z0-9_]+\b")
_SHELL_NAMES = """
    BASHPID COLUMNS COPROC DIRSTACK EPOCHREALTIME EPOCHSECONDS ERRNO EUID FUNCNAME GROUPS HOSTNAME
    HOSTTYPE IFS LINENO LINES MACHTYPE MAPFILE OLDPWD OPTARG OPTERR OPTIND OSTYPE PIPESTATUS PPID
    PS1 PS2 PS3 PS4 PWD RANDOM REPLY SECONDS SHELLOPTS SHLVL SRANDOM TIMEFORMAT UID
"""
_OF_THE_SHELL = frozenset(_SHELL_NAMES.split())


def variables_read(text: str, extension: str) -> set[str]:
    """Return the variables that a program reads from its environment and does not set itself.

    Args:
        extension: of its file: `.sh`, `.py` or `.ts`.
    """
    # A shell script may contain a program in another language.
    found = {one or other for one, other in _IN_CODE.findall(text)}
    found -= set(_SET_IN_CODE.findall(text))
    if extension != ".sh":
        return found
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    code = "\n".join(lines)
    filled = {name for rest in _FILLED_IN_SHELL.findall(code) for name in _NAME.findall(rest)}
    own = filled | set(_SET_IN_SHELL.findall(code)) | _OF_THE_SHELL
    in_shell = {name for name in _IN_SHELL.findall(code) if not name.startswith("BASH_")}
    return found | in_shell - own
