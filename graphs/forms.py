"""What a value must be to fit the `x-form` that pages ask for it by."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sleipnir.graphs.schema import FormField


def problem_of(form: FormField, value: Any) -> str | None:
    """Return why a value does not fit, for the person who gave it; None if it does."""
    if form.enum is not None and value not in form.enum:
        return f"choose one of {', '.join(map(str, form.enum))}"
    if form.format == "date" and isinstance(value, str) and value:
        if not is_date(value):
            return "this is not a date such as 2026-11-28"
        return _outside(value, form)
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _outside(value, form)
    if isinstance(value, str):
        return _outside(len(value), form, "character", "characters")
    return _outside(len(value), form, "entry", "entries") if isinstance(value, list) else None


def _outside(value: Any, form: FormField, one: str = "", many: str = "") -> str | None:
    """Return that a value is below or above the bounds, those of the same kind.

    Args:
        one, many: the name of what is counted.
    """
    kinds = str if isinstance(value, str) else (int, float)
    if isinstance(form.min, kinds) and value < form.min:
        return f"at least {form.min} {one if form.min == 1 else many}".rstrip()
    if isinstance(form.max, kinds) and value > form.max:
        return f"at most {form.max} {one if form.max == 1 else many}".rstrip()
    return None


def mistake_in(form: FormField) -> str | None:
    """Return why nothing fits a form, or why it contradicts itself; None if it does not."""
    if form.enum == []:
        return "'enum' is empty"
    if form.enum is not None and (form.format or form.min is not None or form.max is not None):
        return "'enum' excludes 'min', 'max' and 'format'"
    bounds = [each for each in (form.min, form.max) if each is not None]
    if form.format == "date":
        if not all(isinstance(each, str) and is_date(each) for each in bounds):
            return "bounds of a date are dates such as '2026-11-28'"
    elif any(isinstance(each, str) for each in bounds):
        return "'min' and 'max' are numbers, or dates with `format: date`"
    if len(bounds) == 2 and bounds[0] > bounds[1]:  # type: ignore[operator]  # of one kind
        return f"'min' {bounds[0]} is more than 'max' {bounds[1]}"
    return None


def is_date(text: str) -> bool:
    """Return whether a text is a day as YYYY-MM-DD."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
