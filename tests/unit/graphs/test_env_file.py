"""`.env` files: the usual rules, and an error with its line for everything else."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from sleipnir.graphs.env_file import EnvFileRefused, env_lines, read_env_file

PEM = "-----BEGIN KEY-----\nMIIB+abc/XX=\n\n# no comment\n-----END KEY-----"


def read(tmp_path: Path, content: str | bytes) -> dict[str, str]:
    file = tmp_path / ".env"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_env_file(file)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("A=1", "1"),
        ("A=1 # the first", "1"),
        ("A=1\t# the first", "1"),
        ("A=1# all of it", "1# all of it"),
        ("A=#1", "#1"),
        ("A= # nothing", ""),
        ("A=", ""),
        ('A="1" # the first', "1"),
        ("A='1 # not the first'", "1 # not the first"),
        ("export A=1", "1"),
        ("export\tA = 1 ", "1"),
        ("A=it's", "it's"),
        ("A=a=b", "a=b"),
        ("A=a\u2028b\x0cc\x85d", "a\u2028b\x0cc\x85d"),
        ("A=C:\\new", "C:\\new"),
        ("A='C:\\new'", "C:\\new"),
        (r'A="a\nb\t\"c\" \\ \d"', 'a\nb\t"c" \\ \\d'),
        (r"A='a\nb \'c\' \\'", "a\\nb 'c' \\"),
        ('A="é ☃"', "é ☃"),
        (f'A="{PEM}"', PEM),
        (f"A='{PEM}' # a key", PEM),
        ("A=$B ${B}", "$B ${B}"),
        ("A=0\nA=1", "1"),
        ("\ufeffA=1", "1"),
    ],
)
def test_a_value_is_what_the_usual_rules_say(tmp_path: Path, written: str, value: str) -> None:
    assert read(tmp_path, written) == {"A": value}
    around = f"# before\n\n{written}\r\nZ=z\n"
    if not written.startswith("\ufeff"):
        assert read(tmp_path, around) == {"A": value, "Z": "z"}


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        ("A=1\nB", 2, "expected KEY=VALUE"),
        ("A: 1", 1, "expected KEY=VALUE"),
        ("\n\n1A=1", 3, "expected KEY=VALUE"),
        ("=1", 1, "expected KEY=VALUE"),
        ('A="1\nB=2\n', 1, 'the value of A has no closing "'),
        ('X="\n"\nA=\'1', 3, "the value of A has no closing '"),
        ('A="1" 2', 1, 'text behind the closing " of A'),
        ("A='it's'", 1, "text behind the closing ' of A"),
        ("A=1\rB=\0", 2, "a NUL character"),
        (b"A=1\nB=\xe9", 2, "not UTF-8"),
        ("A=1".encode("utf-16"), 1, "UTF-16"),
        (b"\xfe\xff" + "A=1".encode("utf-16-be"), 1, "UTF-16"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_line(
    tmp_path: Path, content: str | bytes, line: int, reason: str
) -> None:
    with pytest.raises(EnvFileRefused) as refused:
        read(tmp_path, content)

    assert (refused.value.line, reason in refused.value.reason) == (line, True)
    assert str(refused.value).startswith(f".env, line {line}: ")


def test_a_missing_file_is_empty(tmp_path: Path) -> None:
    assert read_env_file(tmp_path / ".env") == {}


@pytest.mark.parametrize(
    ("written", "expected"),
    [("A=${B}", True), ('A="x${B}"', True), ("A='${B}'", False), ("A=$B $(c) ${", False)],
)
def test_what_others_would_expand_is_known(tmp_path: Path, written: str, expected: bool) -> None:
    (tmp_path / ".env").write_text(written)

    (line,) = env_lines(tmp_path / ".env")

    assert line.looks_expanded is expected


@pytest.mark.parametrize(
    "content",
    [
        "A=" + " " * 1_000_000 + "x",
        'A="' + "\\" * 1_000_000,
        "\n#" * 300_000,
        "A=" + " #" * 400_000,
    ],
    ids=["blanks", "backslashes", "comments", "signs"],
)
@pytest.mark.timeout(20)
def test_the_largest_file_is_read_in_linear_time(tmp_path: Path, content: str) -> None:
    (tmp_path / ".env").write_text(content)

    with suppress(EnvFileRefused):
        assert len(read_env_file(tmp_path / ".env")) < 2
