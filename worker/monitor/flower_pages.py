"""Flower's pages with a link back to ours."""

from __future__ import annotations

from sleipnir.worker.monitor.pages.prefixed_templates import PrefixedTemplates

_BAR = "navbar.html"
_BEGIN = '<ul class="app-nav navbar-nav">'
_TASKS = "tasks.html"
_TABLE = '<section class="tasks-table-card"'
_WATCH = (
    '<p class="px-3">Tasks appear while workers report them: '
    '<a href="/fleet#celery">switch that on or off</a>.</p>'
)
_OURS = '<li class="nav-item"><a class="nav-link" href="/now">Sleipnir</a></li>'

_CONTROLS = "{% if not read_only %}"
_CONTROLS_FOR_SOME = "{% if handler.may_operate %}"


class FlowerTemplates(PrefixedTemplates):
    """Flower's templates, with a link to our first page, and controls for operators only."""

    def changed(self, name: str, text: str) -> str:
        if name == _BAR:
            return text.replace(_BEGIN, f"{_BEGIN}\n{_OURS}", 1)
        if name == _TASKS:
            text = text.replace(_TABLE, f"{_WATCH}\n{_TABLE}", 1)
        return text.replace(_CONTROLS, _CONTROLS_FOR_SOME)
