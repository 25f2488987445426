"""/styles: every part of the monitor's pages on one, to be looked at and checked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tornado.template import Template

from sleipnir.worker.monitor import formats
from sleipnir.worker.monitor.handlers.base import MonitorHandler
from sleipnir.worker.monitor.site import assets

# A name as odd as others may give.
LONG: Final = "<b>שלום</b> \x1b[31m👩‍👩‍👧 " + "a" * 128


class StylesPage(MonitorHandler):
    """The page of all parts."""

    def get(self) -> None:
        loader = self.site.templates
        if "styles.html" not in loader.templates:
            text = Path(__file__).with_name("styles.html").read_text(encoding="utf-8")
            loader.templates["styles.html"] = Template(text, name="styles.html", loader=loader)
        icons = re.findall(r'<symbol id="([\w-]+)"', assets()["icons.svg"].decode())
        self.give_page(
            "styles.html",
            tab="",
            title="Styles",
            states=list(formats.LOOKS),
            long=LONG,
            icons=icons,
        )
