"""Validates requests by pydantic models, with one kind of refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from sleipnir.worker.monitor.problems import bad_request

T = TypeVar("T", bound="CheckedModel")


class CheckedModel(BaseModel):
    """Named values; what it does not know it refuses."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @classmethod
    def of(cls: type[T], document: Mapping[str, Any]) -> T:
        """Validate a request's values.

        Raises:
            Refused: they are invalid.
        """
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"])) or "the body"
            raise bad_request(f"{place}: {first['msg']}") from error
