"""H in a cron expression: a number that a hash of the schedule's name picks.

    H        one number of the field's        H/15        every 15th from one of the first 15
    H(0-29)  one from 0 to 29                 H(0-29)/10  every 10th of those

Fields are picked one by one, so that schedules with the same minute have different hours. The name
and not the id is hashed: it is there before the schedule is, and in a copy of the database; so a
renamed schedule moves.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import NamedTuple

from celery_dbbeat.errors import TriggerError

_H = re.compile(r"h(?:\(([0-9]{1,2})-([0-9]{1,2})\))?(?:/([0-9]{1,4}))?")


class Span(NamedTuple):
    """The numbers of a field that an H may fall on."""

    field: str
    low: int
    high: int


def spread(text: str, span: Span, name: str | None) -> str:
    """Write out each H in the text of a field, as a number or a range with a step."""
    if "h" not in text:
        return text
    return ",".join(
        _item(item, span, name) if item[:1] == "h" else item for item in text.split(",")
    )


def _item(item: str, span: Span, name: str | None) -> str:
    found = _H.fullmatch(item)
    if found is None:
        raise TriggerError(
            f"{span.field} {item!r} is not understood: allowed are h, h/n, h(a-b) and h(a-b)/n"
        )
    low, high = int(found[1] or span.low), int(found[2] or span.high)
    if not span.low <= low <= high <= span.high:
        raise TriggerError(
            f"{span.field} {item!r} is out of range: "
            f"allowed are a to b from {span.low} to {span.high}, the lower one first"
        )
    size = high - low + 1
    step = int(found[3] or 1)
    if not 1 <= step <= size:
        raise TriggerError(f"{span.field} {item!r} has a step of {step}: allowed are 1 to {size}")
    if name is None:
        raise TriggerError(f"{item!r} is spread by the name of the schedule, and there is none")
    if found[3] is None:
        return str(low + _hash(name, span.field) % size)
    return f"{low + _hash(name, span.field) % step}-{high}/{step}"


def _hash(name: str, field: str) -> int:
    text = f"{field}\0{name}".encode("utf-8", "surrogatepass")
    return int.from_bytes(sha256(text).digest()[:8], "big")
