import datetime
import os
from typing import List, Literal, Optional


def run(
    place: str,
    year: int,
    kind: Literal["last", "first"] = "last",
    crops: Optional[List[str]] = None,
):
    """Tell the date of the last or first frost of a year.
    A margin is added, as gardeners do.

    Args:
        place: Where the garden is,
            by the name of the place.
        year: The year to look at
        kind: Whether spring or autumn is meant
        crops: Crops that are to be warned of
    """
    date = datetime.date(year, 4, 20) if kind == "last" else datetime.date(year, 10, 25)
    margin = datetime.timedelta(days=int(os.environ["FROST_MARGIN_DAYS"]))
    found = {"place": place, "date": (date + margin).isoformat()}
    if crops:
        found["tender"] = [crop for crop in crops if crop == "beans"]
    return found


def _unused():
    raise AssertionError("no tool")
