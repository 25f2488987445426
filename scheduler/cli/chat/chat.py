"""A chat: messages in, runs out, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sleipnir.graphs.normal_agent import config_of
from sleipnir.graphs.variables import resolve_variables
from sleipnir.records import dataclass
from sleipnir.scheduler.cli import exit_codes, run_result
from sleipnir.scheduler.cli.asking import knowledge
from sleipnir.scheduler.cli.asking.instructions import with_instructions
from sleipnir.scheduler.cli.attach import Attachment, explain
from sleipnir.scheduler.cli.chat.actions import Actions, tell
from sleipnir.scheduler.cli.chat.chat_session import ChatSession
from sleipnir.scheduler.cli.chat.commands import UnknownCommand, is_command, obey
from sleipnir.scheduler.cli.chat.narrator import ChatNarrator
from sleipnir.scheduler.cli.chat.reader import EarlyInput
from sleipnir.scheduler.cli.chat.recap import recap
from sleipnir.scheduler.cli.connect import say_run_goes_on
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.narration.narrator import Narrator
from sleipnir.scheduler.cli.submission import variable_values
from sleipnir.scheduler.cli.terminal import is_terminal
from sleipnir.scheduler.config.user import user_name
from sleipnir.scheduler.errors import EngineUnreachable, SleipnirError, Terminated
from sleipnir.scheduler.runs.labels import LONGEST_VALUE
from sleipnir.scheduler.runs.model import NO_USAGE, Run, Status
from sleipnir.scheduler.runs.submit import Request, new_run_id_in
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.views.text.terminal_output import printable

if TYPE_CHECKING:
    from sleipnir.scheduler.cli.chat.reader import Reader
    from sleipnir.scheduler.cli.options import Options
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.client.preparation import PreparedAgent
    from sleipnir.scheduler.runs.conversation.sessions import Session

# The label of all runs of a chat, by which its user's waiting runs are found.
_LABEL = "chat"


@dataclass(frozen=True, slots=True)
class Wishes:
    """How to talk to an agent."""

    agent: str
    session: str | None = None
    variables: Sequence[tuple[str, str]] = ()
    workdir: Path | None = None
    confirmed: bool = False


class Chat:
    """One call of `sleipnir chat`.

    An unnamed conversation gets a temporary session, which is removed at the end unless a question
    is left open.

    Raises:
        AgentNotFound, InvalidAgent, BundleError, SubmissionRefused: the agent cannot be used.
    """

    def __init__(self, client: Client, options: Options, wishes: Wishes) -> None:
        self.client = client
        self._options = options
        self._wishes = wishes
        self._choose = knowledge.questions_here(client.store.settings)
        prepared = client.prepare(wishes.agent, wishes.workdir, self._choose)
        self.agent = prepared.name
        self.starters = prepared.graph.conversation_starters
        self.config = config_of(prepared.graph)
        named = client.session_for(
            prepared, Request(session=wishes.session, user=client.store.settings.identity)
        )
        self._left = self._run_of(named) if named is not None else _left_open(client, self.agent)
        self.session: ChatSession | None = None
        if self.config is not None:
            left = None if self._left is None else self._left.context.session
            self.session = ChatSession(client, self.agent, left if named is None else named.name)
        self._variables = self._begin(prepared)
        self.last: Run | None = None
        self.usage = NO_USAGE
        self.clears_todos = False
        self._interrupted = ""  # what was said of a reply that was cancelled
        self._stays = True
        self._leaves = False  # at the next Ctrl-C, as the last one had nothing to cancel
        self._code = ExitCode.SUCCEEDED
        self._early = EarlyInput()

    def stay(self, read: Reader) -> ExitCode:
        """Read and send messages until the end of the input, or until a question is left open."""
        try:
            if self._left is not None:
                self._options.say(f"continuing run {self._left.run_id}, which is not over")
                self._follow(self._left.run_id)
            elif is_terminal():
                self._recall()
            while self._stays:
                try:
                    message = self._early.next_message(read)
                except KeyboardInterrupt:  # the line is discarded
                    if self._leaves:
                        break
                    self._options.say("Ctrl-C again leaves, as Ctrl-D does")
                    self._leaves = True
                    continue
                self._leaves = False
                if message is None:
                    break
                self._take(message)
            # A person at the terminal has seen how each run ended.
            is_open = self._code == ExitCode.WAITING
            return ExitCode.SUCCEEDED if is_terminal() and not is_open else self._code
        finally:
            if self.session is not None and (remark := self.session.end()):
                self._options.say(remark)

    # ---- beginning and end

    def _begin(self, prepared: PreparedAgent) -> dict[str, str]:
        """Return the values of the agent's variables; ask for missing ones if possible."""
        declared, found = prepared.graph.variables, self._found_session()
        if found is not None and found.run is not None:  # a session keeps its variables
            values = {**found.run.context.submitted_vars, **dict(self._wishes.variables)}
            known = found.run.context.variables
        else:
            values = variable_values(
                prepared.name, declared, self._wishes.variables, asks=is_terminal()
            )
            known = resolve_variables(prepared.graph, values)
        secret = {variable.name for variable in declared if variable.secret}
        self.known = {name: text for name, text in known.items() if name not in secret}
        return values

    def _recall(self) -> None:
        """Show where a named session was left."""
        found = self._found_session()
        if found is not None:
            tell(recap(found, self.client.queries.now_ms()))

    def _found_session(self) -> Session | None:
        return None if self.session is None else self.session.found()

    @staticmethod
    def _run_of(session: Session | None) -> Run | None:
        """Return the last run of a session if it has not ended."""
        run = None if session is None else session.run
        return None if run is None or run.is_final else run

    # ---- messages

    def _take(self, message: str) -> None:
        """Handle typed input: a message to the agent, or a command."""
        try:
            if is_command(message, at_terminal=is_terminal()):
                obey(Actions(self), message)
            elif message.strip():
                self.send(message)
        except EngineUnreachable:
            raise
        except UnknownCommand as error:
            self._options.say(str(error))
        except SleipnirError as error:
            self._code = exit_codes.report(error, traceback=self._options.verbosity > 1)

    def send(self, message: str) -> None:
        """Send a message, and show what becomes of it."""
        session = self._found_session()
        is_new = session is None or session.run is None
        run_id = new_run_id_in(session)
        prepared = self.client.prepare(self._wishes.agent, self._wishes.workdir, self._choose)
        directory = (self._wishes.workdir or Path()).absolute()
        request = Request(
            prompt=message,
            run_id=run_id,
            session=None if self.session is None else self.session.name,
            without_todos=self.clears_todos,
            continues=None if self.session is None else self.session.before,
            interrupted=self._interrupted,
            variables=self._variables if is_new else dict(self._wishes.variables),
            workdir=str(directory),
            machine=self.client.machine_with_files(),
            confirmed=self._wishes.confirmed,
            streamed=self._options.streams_replies,
            labels={_LABEL: _label_of(self.client.store.settings.identity)},
            user=self.client.store.settings.identity,
        )
        # Ctrl-C must be able to cancel a run even before we know that it was accepted.
        self._follow(run_id, begin=partial(self._submit, prepared, request))
        self.clears_todos = False

    def _submit(self, prepared: PreparedAgent, request: Request) -> None:
        request = with_instructions(self.client, prepared, self._wishes.agent, request)
        self.client.submit(prepared, request)

    def _follow(self, run_id: str, begin: Callable[[], object] = lambda: None) -> None:
        """Show a run until it ends, or asks a question that nobody here answers."""
        narrator = ChatNarrator(self._options) if self.config is not None else None
        self._interrupted = ""
        attachment = Attachment(
            self.client,
            run_id,
            self._options,
            asks=is_terminal(),
            stays=False,
            streams=self._options.streams_replies if narrator is None else narrator.streams,
            narrator=narrator or Narrator(self._options),
            take_early=self._early.keep,
        )
        try:
            begin()
            run = attachment.follow()
        except KeyboardInterrupt:
            self._code = run_result.cancelled(self.client, attachment, self._options)
            found = self._found_session()
            # Otherwise it was cancelled before it was submitted.
            if narrator is not None and found is not None and found.last_run == run_id:
                self._interrupted = narrator.said.strip()
                self._options.say("your message stays in the conversation; so does what was said")
            return
        except Terminated:
            say_run_goes_on(self._options, run_id)
            raise
        self.client.pending_pointers.write()
        self.last = run
        self.usage += run.usage
        self._code = exit_codes.exit_code_of(run.status)
        if run.status == Status.WAITING:
            for question in attachment.open_questions():
                explain(self._options, question)
            flag = "" if self.session is None else self.session.flag
            self._options.say(f"or come back with: sleipnir chat {self._wishes.agent}{flag}")
            self._stays = False
        elif narrator is None or not narrator.has_said(run.output):
            run_result.print_result(self.client, run, self._options, ())

    # ---- what commands do

    def leave(self) -> None:
        self._stays = False

    def forget_last(self) -> None:
        """Note that the last message is not part of the conversation any more."""
        self.last, self._interrupted = None, ""


def _label_of(user: str) -> str:
    return printable(user)[:LONGEST_VALUE]


def _left_open(client: Client, agent: str) -> Run | None:
    """Return the newest run of this user's chats with the agent that waits for an answer.

    None without a terminal, where nobody could answer.
    """
    if not is_terminal():
        return None
    users = [client.store.settings.identity]
    if client.acceptances is not None:
        # Earlier versions noted login names only. The embedded engine has no other users.
        users.append(user_name())
    for user in users:
        wanted = RunFilter(
            statuses=frozenset({Status.WAITING}),
            agents=(agent,),
            labels=((_LABEL, _label_of(user)),),
        )
        if found := client.queries.list_runs(wanted, 1).entries:
            return client.run(found[0].run_id)
    return None
