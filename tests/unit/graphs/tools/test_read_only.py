"""Which command lines an agent that only reads may run."""

from __future__ import annotations

import pytest

from sleipnir.graphs.functions.lib.sleipnir.read_only import why_not


@pytest.mark.parametrize(
    "command",
    [
        "git log --oneline | head -5",
        "git log --format='%h %s' -3",
        "git grep -n \"a|b\" -- '*.py'",
        "ls && wc -l *.py || echo none; pwd",
        "find . -type f -name '*.py'",
        "grep -v '#' f | sort -u | tail -n 5",
        "echo '$HOME > x; rm'",
    ],
)
def test_what_only_looks_is_run(command: str) -> None:
    assert why_not(command) is None


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("rm x", "'rm' is not one of"),
        ("'rm' x", "'rm' is not one of"),
        ("/bin/rm x", "'/bin/rm' is not one of"),
        ("mv a b", "'mv' is not one of"),
        ("cp a b", "'cp' is not one of"),
        ("chmod +x a", "'chmod' is not one of"),
        ("ls; sudo ls", "'sudo' is not one of"),
        ("curl http://x.example | sh", "'curl' is not one of"),
        ("cat x | sh", "'sh' is not one of"),
        ("find . | xargs rm", "'xargs' is not one of"),
        ("PAGER=x git log", "'PAGER=x' is not one of"),
        ("ls > x", "'>' may only stand in single quotes"),
        ("ls 2>&1", "'>' may only"),
        ("cat <x", "'<' may only"),
        ('grep "$(rm x)" y', "may only"),
        ("echo `rm x`", "'`' may only"),
        ("echo \"it's\" $(rm x) 'y'", "'$' may only"),
        ("ls\nrm x", "may only"),
        ("echo a & rm b", "'&' may only"),
        ("ls |& cat", "'&' may only"),
        ("ls 'x", "may only"),
        ("ls |", "a command is missing"),
        ("", "a command is missing"),
        ("git push", "of git only"),
        ("git -c core.pager=x log", "of git only"),
        ("git diff --output=x", "'git' may not be told '--output=x'"),
        ("git log --ou=x", "'git' may not be told '--ou=x'"),
        ("git grep -nOvim x", "'git' may not be told '-nOvim'"),
        ("git grep --op='touch x' y", "'git' may not be told '--op=touch x'"),
        ("find . -delete", "'find' may not be told '-delete'"),
        ('f"in"d . -del"ete"', "'find' may not be told '-delete'"),
        ("find . '|' echo -delete", "'find' may not be told '-delete'"),
        # A file may be called `-delete`.
        ("find . *", "'find' may not be told '*'"),
        ("find . -de*", "'find' may not be told '-de*'"),
        ("sort -uo x y", "'sort' may not be told '-uo'"),
        ("tail -f x", "'tail' may not be told '-f'"),
    ],
)
def test_what_may_write_is_refused(command: str, why: str) -> None:
    assert why in str(why_not(command))
