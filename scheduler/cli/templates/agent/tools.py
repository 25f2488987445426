"""The agent's functions. `sleipnir tools __NAME__` lists them as a model sees them.

Names, types and docstrings are what a model reads; what a function prints or returns is the result.
They run in the directory where the run was submitted.
"""

from pathlib import Path

from sleipnir.tool import guard

NOTES = Path("notes.txt")


def list_notes() -> str:
    """List all notes, one a line."""
    return NOTES.read_text(encoding="utf-8") if NOTES.exists() else "no notes"


def add_note(text: str) -> str:
    """Add a note to the list.

    Args:
        text: The note, in one line.
    """
    with NOTES.open("a", encoding="utf-8") as file:
        file.write(" ".join(text.split()) + "\n")
    return "noted"


def remove_notes() -> str:
    """Remove all notes."""
    # A person is asked first, and sees the call.
    guard("remove all notes?")
    NOTES.unlink(missing_ok=True)
    return "removed"
