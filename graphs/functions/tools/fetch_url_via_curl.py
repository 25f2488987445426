"""Fetches a web page."""

from sleipnir.markdown import NotConverted, from_html

from sleipnir import web

HTML = ("text/html", "application/xhtml+xml")
TEXT = ("application/json", "application/xml", "application/javascript", "application/yaml")


def run(url: str) -> str:
    """Fetch a web page and return its text as Markdown, without images.

    Args:
        url: The address of the page, beginning with http:// or https://.
    """
    page = web.ask("the server", web.get(url))
    if page.content_type in HTML:
        try:
            return from_html(page.text, page.url)
        except NotConverted as error:
            raise SystemExit(f"{url} cannot be converted: {error}") from error
    if page.content_type.startswith("text/") or page.content_type.endswith(("+json", "+xml")):
        return page.text
    if page.content_type in TEXT:
        return page.text
    raise SystemExit(f"{url} is not text: {page.content_type}, {len(page.body)} bytes")
