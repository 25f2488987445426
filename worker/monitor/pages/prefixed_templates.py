"""Templates for pages that may be served below a prefix."""

from __future__ import annotations

import re
from pathlib import Path

from tornado.template import Loader, Template

# Addresses of this site in templates; those made by expressions have the prefix already.
_ADDRESS = re.compile(r'\b(href|action|src)="/')


class PrefixedTemplates(Loader):  # type: ignore[misc]  # no stubs
    """Templates written as if the site began at `/`.

    Args:
        directory: of the templates.
        prefix: "" or a path such as `/sleipnir`.
    """

    def __init__(self, directory: str | Path, prefix: str) -> None:
        super().__init__(str(directory), whitespace="oneline")
        self.prefix = prefix

    def _create_template(self, name: str) -> Template:
        text = self.changed(name, (Path(self.root) / name).read_text(encoding="utf-8"))
        return Template(_ADDRESS.sub(rf'\1="{self.prefix}/', text), name=name, loader=self)

    def changed(self, name: str, text: str) -> str:
        """Return a template's text as it will be used."""
        return text
