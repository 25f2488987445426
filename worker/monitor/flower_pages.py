"""Flower's pages with a way back to ours."""

from __future__ import annotations

from pathlib import Path

from tornado.template import Loader, Template

_BAR = "navbar.html"
_BEGIN = '<ul class="app-nav navbar-nav">'
_OURS = '<li class="nav-item"><a class="nav-link" href="/now">Sleipnir</a></li>'


class FlowerTemplates(Loader):  # type: ignore[misc]  # no stubs
    """Flower's templates; its bar begins with a link to our first page."""

    def _create_template(self, name: str) -> Template:
        text = (Path(self.root) / name).read_text(encoding="utf-8")
        if name == _BAR:
            text = text.replace(_BEGIN, f"{_BEGIN}\n{_OURS}", 1)
        return Template(text, name=name, loader=self)
