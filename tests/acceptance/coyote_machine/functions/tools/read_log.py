def run(day: str, lines: int = 5):
    """Read the harbour's log of a day.

    Args:
        day: which day, as in `monday`
        lines: how many lines at most
    """
    return "\n".join(f"{day}: entry {n}" for n in range(1, lines + 1))
