"""Shows every kind of parameter that a Python tool may have."""

# @env DEMO_GREETING  Reaches the tool from the worker's environment.

import os
from typing import Any, Dict, List, Literal, Optional, Set, Tuple, Union


async def run(
    text: str,
    anything: Any,
    count: int,
    ratio: float,
    flag: bool,
    colour: Literal["red", "green"],
    level: Literal[1, 2, 3],
    words: List[str],
    numbers: List[int],
    tags: Set[str],
    scores: Tuple[float, ...],
    options: Dict[str, int],
    quoted: "List[bool]",
    described,
    maybe: Optional[int],
    either: Union[int, str] = 0,
    default: str = "as declared",
    *,
    named: bool = False,
) -> dict:
    """Return the arguments as they arrive, and the variables that describe the call.

    A living reference for the authors of tools; of no use to a model.

    Args:
        text: Any text.
        anything: Taken for a text.
        count: A whole number.
        ratio: A number.
        flag: True or false.
        colour: One of two words.
        level: One of three numbers.
        words: Several texts.
        numbers: Several whole numbers.
        tags: Several texts; the annotation says that their order does not matter.
        scores: Several numbers.
        options: An object.
        quoted: Several booleans; the annotation is written as a text.
        described (int): A whole number; only this line says so.
        maybe: May be left out, and is None then.
        either: As the first of the two types; may be left out.
        default: May be left out.
        named: May be left out; only its name tells it from the others,
            and this text goes on here.
    """
    arguments = dict(locals())
    return {"arguments": arguments, "environment": _environment()}


def _environment() -> dict:
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith("LLM_") or name in ("AUTO_CONFIRM", "DEMO_GREETING")
    }
