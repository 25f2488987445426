"""What forms have in common: what somebody asks for by flags, a request's body, or a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.time_bounds import duration_of

T = TypeVar("T", bound=BaseModel)

_YEAR_S = 366 * 86400


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _seconds(value: Any) -> Any:
    return duration_of(value) if isinstance(value, str) else value


# One text stands for a list of it.
Texts = Annotated[list[str], BeforeValidator(_as_list)]
# In s; numbers are seconds already.
Duration = Annotated[int, BeforeValidator(_seconds), Field(ge=0, le=_YEAR_S)]


def filled_in(form: type[T], document: Mapping[str, Any], whole: str) -> T:
    """Return a form with the given fields.

    Args:
        whole: what to name in a refusal that is about no single field.

    Raises:
        SubmissionRefused: a field is not valid; names the first one.
    """
    try:
        return form.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or whole
        problem = first["msg"].removeprefix("Value error, ")
        raise SubmissionRefused(f"{place}: {problem}") from error
