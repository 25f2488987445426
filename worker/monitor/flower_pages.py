"""Flower's pages with a way back to ours."""

from __future__ import annotations

from sleipnir.worker.monitor.prefixed_templates import PrefixedTemplates

_BAR = "navbar.html"
_BEGIN = '<ul class="app-nav navbar-nav">'
_OURS = '<li class="nav-item"><a class="nav-link" href="/now">Sleipnir</a></li>'


class FlowerTemplates(PrefixedTemplates):
    """Flower's templates; its bar begins with a link to our first page."""

    def changed(self, name: str, text: str) -> str:
        return text.replace(_BEGIN, f"{_BEGIN}\n{_OURS}", 1) if name == _BAR else text
