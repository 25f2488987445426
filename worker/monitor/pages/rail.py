"""The pages that the rail names, in its order."""

from __future__ import annotations

from typing import Final

from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class RailPage:
    """A page that every page leads to."""

    tab: str
    icon: str
    name: str = ""  # if it is not the tab's
    # What wants attention there, as `attention_of` names it, and in words; "" if nothing does.
    count: str = ""
    words: str = ""
    of_operators: bool = False

    @property
    def path(self) -> str:
        """Its path."""
        return f"/{self.tab}"

    @property
    def label(self) -> str:
        """Its name, for people."""
        return self.name or self.tab.capitalize()


# Where there is little room, the rest is behind "More".
RAIL: Final = (
    RailPage("now", "house"),
    RailPage("inbox", "inbox", count="questions", words="open questions"),
    RailPage("runs", "list"),
    RailPage("batches", "layers"),
)
MORE: Final = (
    RailPage("agents", "bot"),
    RailPage("schedules", "rotate-cw"),
    RailPage("costs", "circle-dollar-sign"),
    RailPage("limits", "gauge", count="pauses", words="paused"),
    RailPage("fleet", "server", "Workers", count="lost", words="lost in 24 h"),
    RailPage("hooks", "bell", of_operators=True),
    RailPage("triggers", "play", of_operators=True),
    RailPage("audit", "scroll-text", of_operators=True),
)
RAIL_PAGES: Final = {page.tab: page for page in (*RAIL, *MORE)}
