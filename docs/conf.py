"""The pages as a site that reads in order: `make site`. Nothing of it comes from the network."""

from __future__ import annotations

import re
from typing import Any

project = "Sleipnir"
extensions = ["myst_parser"]
exclude_patterns = ["*.py"]

# What headings are called as link targets on other pages, as code forges make them.
myst_heading_anchors = 4
myst_links_external_new_tab = False
myst_fence_as_directive: set[str] = set()

html_theme = "furo"
html_title = "Sleipnir"
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_last_updated_fmt = None

# What is of the repository and no page stands as its path.
_OF_THE_REPOSITORY = re.compile(r"\[([^\]\[]*)\]\(\.\./([^)\s#]+)[^)\s]*\)")


def _name_files(_app: Any, _page: str, source: list[str]) -> None:
    source[0] = _OF_THE_REPOSITORY.sub(
        lambda link: link[1] if link[1].strip("`") == link[2] else f"{link[1]} (`{link[2]}`)",
        source[0],
    )


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _name_files)
