"""Formats rows as a table."""

from __future__ import annotations

from sleipnir.worker.bench.rows import Row

HEAD = f"{'':50}{'unit':>9}{'median':>11}{'min':>9}{'ratio':>8}{'cpu':>9}{'cmds':>7}{'goal':>8}"

_ROUGH = 10  # goals from here on are shown without decimals


def line(row: Row) -> str:
    """Return one line of the table."""

    goal_digits = 0 if row.goal is None or row.goal >= _ROUGH else 2

    def shown(value: float | None, digits: int = 2) -> str:
        return "-" if value is None else f"{value:.{digits}f}"

    return (
        f"{row.name:50}{row.unit:>9}{shown(row.median):>11}{shown(row.minimum):>9}"
        f"{shown(row.ratio):>8}{shown(row.cpu):>9}{shown(row.commands, 1):>7}"
        f"{shown(row.goal, goal_digits):>8}{'' if row.is_met else '  missed'}"
    )
