"""Templates of pages that may lie below a prefix."""

from __future__ import annotations

import re
from pathlib import Path

from tornado.template import Loader, Template

# Addresses of this site in a template; those that expressions make have the prefix already.
_ADDRESS = re.compile(r'\b(href|action|src)="/')


class PrefixedTemplates(Loader):  # type: ignore[misc]  # no stubs
    """Templates that name addresses as if the site began at `/`.

    Args:
        directory: where they are.
        prefix: where it begins; "" or a path such as `/sleipnir`.
    """

    def __init__(self, directory: str | Path, prefix: str) -> None:
        super().__init__(str(directory))
        self.prefix = prefix

    def _create_template(self, name: str) -> Template:
        text = self.changed(name, (Path(self.root) / name).read_text(encoding="utf-8"))
        return Template(_ADDRESS.sub(rf'\1="{self.prefix}/', text), name=name, loader=self)

    def changed(self, name: str, text: str) -> str:
        """A template's text as it is to be used."""
        return text
