"""Lists of runs by name, for `ps`: the same views as on the page of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import ask_redis
from sleipnir.scheduler.cli.options import Options

with lazy_imports():
    from sleipnir.scheduler.cli import connect, run_result
    from sleipnir.scheduler.store.people import saved_views
    from sleipnir.scheduler.views import agents, runs
    from sleipnir.scheduler.views.text import formatting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types.records import ViewDocument

# Conditions of a list, but for child runs, each with the flag of its name.
_WITH_FLAG = ("status", "agent", "batch", "label", "since", "until")


def complete_views(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete names of the user's views."""
    found = ask_redis(ctx, lambda client: saved_views.SavedViews(client).of(_user())) or {}
    return [
        CompletionItem(name, help=q) for name, q in found.items() if name.startswith(incomplete)
    ]


def _user() -> str:
    return connect.settings_of(Options(quiet=True)).identity


OPTIONS = (
    click.option(
        "--view", metavar="VIEW", shell_complete=complete_views, help="Only runs of this view."
    ),
    click.option(
        "--save-view", metavar="VIEW", help="Give this list a name; one of that name is replaced."
    ),
    click.option("--views", is_flag=True, help="List your views instead."),
    click.option(
        "--forget-view",
        metavar="VIEW",
        shell_complete=complete_views,
        help="Remove this view, list nothing.",
    ),
)


def act(context: click.Context, client: Client, options: Options) -> bool:
    """Carry out --views or --forget-view; return whether one of them was given."""
    user, flags = client.store.settings.identity, context.params
    if (name := flags["forget_view"]) is not None:
        if not saved_views.SavedViews(client.store.client).forget(user, name):
            raise _unknown(name)
        options.say("the view is removed")
        return True
    if flags["views"]:
        _print(client, options, user)
    return bool(flags["views"])


def flags_of(context: click.Context, client: Client) -> dict[str, Any]:
    """Return the flags of the list that a call of `ps` asks for, and save it if it is to be.

    Raises:
        click.UsageError: there is no such view, `ps` has no flag for one of its conditions, or
            what is to be saved is more than conditions.
        ViewInvalid: the name or the conditions are too long.
        ActionRefused: there are too many views.
    """
    user, flags = client.store.settings.identity, dict(context.params)
    views = saved_views.SavedViews(client.store.client)
    if (name := flags["view"]) is not None:
        query = views.of(user).get(name)
        if query is None:
            raise _unknown(name)
        of_view = context.command.make_context(str(context.info_name), _words(name, query))
        flags |= {
            flag: of_view.params[flag]
            for flag in (*_WITH_FLAG, "children")
            if context.get_parameter_source(flag) is ParameterSource.DEFAULT
        }
        flags["agent"] = agents.agents_named(client, flags["agent"])
    if (new_name := flags["save_view"]) is not None:
        if flags["tree"]:
            raise click.UsageError("--tree cannot be saved with a view; leave it out")
        views.save(user, new_name, urlencode(list(_pairs(flags))))
    return {flag: flags[flag] for flag in (*_WITH_FLAG, "children")}


def _words(name: str, query: str) -> list[str]:
    """Return what to type after `ps` for the list of a query."""
    words = []
    for parameter, value in parse_qsl(query):
        match parameter, value:
            case "cols", _:
                pass  # columns are those of `ps`
            case ("children", "0") | ("order", "newest"):
                pass
            case "children", _:
                words.append("--all")
            case _ if parameter in _WITH_FLAG:
                words.append(f"--{parameter}={value}")
            case _:
                raise click.UsageError(
                    f"the view '{name}' has {parameter}={value}, for which `ps` has no flag; "
                    f"the monitor shows it: /runs?{query}"
                )
    return words


def _pairs(flags: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the parameters of the list that flags mean."""
    for name in ("status", "agent"):
        yield from ((name, each) for each in flags[name])
    yield from (("label", f"{name}={value}") for name, value in flags["label"])
    for name in ("batch", "since", "until"):
        if flags[name] is not None:
            yield name, str(flags[name])
    if flags["children"]:
        yield "children", "1"


def _print(client: Client, options: Options, user: str) -> None:
    found = runs.saved_views_document(client, user)
    nothing = "no views yet; name a list with: sleipnir ps --status failed --save-view NAME"
    run_result.print_list(options, found, _lines_of, nothing)


def _lines_of(found: Sequence[ViewDocument]) -> Sequence[str]:
    rows = [
        (
            formatting.first_line(each["name"]),
            formatting.first_line(" ".join(map("=".join, parse_qsl(each["query"])))) or "-",
        )
        for each in found
    ]
    return formatting.columns(("VIEW", "CONDITIONS"), rows)


def _unknown(name: str) -> click.UsageError:
    return click.UsageError(f"no view '{name}'; `sleipnir ps --views` lists yours")
