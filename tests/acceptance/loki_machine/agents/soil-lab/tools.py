import asyncio
import os
import sys
from typing import Dict, List, Literal, Optional

KEY = os.environ.get("LLM_AGENT_VAR_LAB_KEY")


def read_ph(bed: str, depth: int, method: Literal["strip", "probe"] = "strip") -> dict:
    """Measure how acid the soil of a bed is.

    Args:
        bed (str): The bed.
        depth (int): How deep, in centimetres.
        method (str, optional): How it is measured.

    Returns:
        The value and where it was measured.
    """
    print(f"measuring with {KEY}")
    print(f"{KEY} is at work", file=sys.stderr)
    return {"ph": 6.5, "bed": bed, "depth": depth, "method": method, "bench": _bench(), "by": KEY}


async def mix(
    parts: Dict[str, float], factor: float = 1.0, dry: bool = False, notes: Optional[List[str]] = None
) -> str:
    """Say how much of each part goes into a mix.

    Args:
        parts: How many litres of each part
        factor: What to multiply with
        dry: Whether water is left out
        notes: What else to write down
    """
    await asyncio.sleep(0)
    amounts = [f"{name} {litres * factor:g}" for name, litres in parts.items()]
    return ", ".join([*amounts, *([] if dry else ["water 1"]), *(notes or [])])


def _bench():
    return os.environ["LAB_BENCH"]
