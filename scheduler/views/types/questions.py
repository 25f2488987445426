"""Questions, answers, and other acts of people."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from sleipnir.scheduler.runs.documents import GuardedCallDocument, about
from sleipnir.scheduler.views.types.records import (
    ExcerptDocument,
    FormFieldDocument,
    KeyedExcerptDocument,
    PageDocument,
    SearchedDocument,
)


class QuestionDocument(TypedDict):
    question_id: Annotated[str, about("`RUN/VISIT`, as its address has it")]
    run_id: str
    root_run_id: str
    agent: str
    node: str
    place: Annotated[str, about("the value for `answer --node`")]
    kind: Annotated[
        str, about("`approval` or `input`; of a model's call `confirm`, `ask` or `checkbox`")
    ]
    text: str
    options: list[str]
    default: str | None
    validation: str | None
    guarded_call: Annotated[
        GuardedCallDocument | None,
        about("what a `confirm` of a guarded call consents to"),
    ]
    user: Annotated[str | None, about("who submitted the run by a command")]
    asked_at: str


class TimeLeftDocument(TypedDict):
    deadline: Annotated[str | None, about("when its run times out without an answer")]
    left_s: float | None
    is_urgent: Annotated[bool, about("less than a tenth of the run's time is left")]


class AgedQuestionDocument(QuestionDocument, TimeLeftDocument):
    batch: Annotated[str | None, about("of the root run")]
    item: Annotated[str | None, about("of the batch")]
    age_s: float
    is_unread: Annotated[bool, about("whether you have not opened it on its page")]


class SearchedQuestionsDocument(SearchedDocument):
    questions: int


class QuestionListDocument(PageDocument):
    questions: list[AgedQuestionDocument]
    searched: SearchedQuestionsDocument


class QuestionGroupDocument(TimeLeftDocument):
    agent: str
    node: str
    count: int
    unread: Annotated[int, about("those that you have not opened")]
    question_id: Annotated[str, about("of the oldest one")]
    text: Annotated[str, about("of the oldest one")]
    options: Annotated[list[str], about("that all of them have; none if any guards a call")]
    age_s: Annotated[float, about("of the oldest one")]


class QuestionGroupsDocument(TypedDict):
    groups: Annotated[
        list[QuestionGroupDocument],
        about("by agent and node, those with unread questions first, then urgent ones"),
    ]
    questions: Annotated[int, about("how many are grouped: the oldest 1,000")]
    is_all: Annotated[bool, about("whether there are no others")]


class ChoiceDocument(TypedDict):
    answer: str
    to: Annotated[str | None, about("the node that it leads to")]
    then: Annotated[str | None, about("the node after that, if there is only one")]


class AnswerFormDocument(QuestionDocument):
    age_s: float
    choices: list[ChoiceDocument]
    on_other: str | None
    form: Annotated[FormFieldDocument | None, about("how pages ask for the answer: its `x-form`")]
    before: Annotated[list[list[str]], about("the nodes of the last two steps of the graph")]
    read: Annotated[list[KeyedExcerptDocument], about("values that its text was made of")]


class MessageDocument(ExcerptDocument):
    role: str
    calls: list[str]


class MessagesDocument(TypedDict):
    left_out: int
    messages: list[MessageDocument]


class ContextDocument(MessagesDocument):
    prompt: ExcerptDocument | None


class OpenVisitDocument(MessagesDocument):
    node: str


class UnderWayDocument(TypedDict):
    visits: list[OpenVisitDocument]


class AnsweredDocument(TypedDict):
    at: str
    by: str | None
    via: str | None


class AnswerLinkDocument(TypedDict):
    question_id: str
    answer_url: Annotated[str, about("whoever has it can answer once; it is shown this once")]
    recipient: str
    expires_at: str


class KnownLinkDocument(TypedDict):
    question_id: str
    recipient: str
    expires_at: str


class LinkListDocument(TypedDict):
    links: Annotated[list[KnownLinkDocument], about("that are good, by recipient")]


class RevokedLinkDocument(TypedDict):
    question_id: str
    recipient: str
    revoked: bool


class GivenAnswerDocument(TypedDict):
    at: str
    run_id: str
    visit: str
    agent: Annotated[str, about('"" if it was answered before this was kept')]
    node: str
    question: Annotated[str, about('its first 1,000 characters; "" as with `agent`')]
    answer: str
    by: str
    via: str
    waited_s: float | None
    call: Annotated[str, about("the guarded call that it was about")]


class AnswerListDocument(TypedDict):
    answers: list[GivenAnswerDocument]
    next: str | None


class ActDocument(TypedDict):
    who: str
    role: str
    via: str
    act: str
    target: str
    outcome: str
    address: str
    detail: str
    waited_s: float | None
    call: Annotated[str, about("the guarded call that an answer was about")]
    question: Annotated[str, about("of an answer: what was asked")]
    agent: Annotated[str, about("of an answer: whose run asked")]
    node: Annotated[str, about("of an answer: where it asked")]


class NotedActDocument(ActDocument):
    at: str
    run_id: str | None


class ActListDocument(TypedDict):
    acts: list[NotedActDocument]
    next: str | None
