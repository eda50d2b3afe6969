"""Named points at which a test can make this process die, stop, hang or fail.

In production `hit` is one look into an empty dict. A test sets, for example,

    DBBEAT_FAILPOINTS="after_record=kill"          the first time, SIGKILL this process
    DBBEAT_FAILPOINTS="after_claim=stop@3"         the third time, SIGSTOP this process
    DBBEAT_FAILPOINTS="before_mark=sleep:2.5"      sleep 2.5 s, every time
    DBBEAT_FAILPOINTS="after_plan=raise"           raise, every time

and checks that no fire time was lost and none doubled.
"""

import os
import re
import signal
import time
from collections.abc import Callable

from celery_dbbeat.errors import DbbeatError, SettingsError

VARIABLE = "DBBEAT_FAILPOINTS"

_FORM = re.compile(
    r"(?P<name>\w+)=(?P<action>kill|stop|raise|sleep:[0-9]+(?:\.[0-9]+)?)(?:@(?P<nth>[1-9][0-9]*))?"
)

#: Every step of beat between claim and mark, in the order in which a batch meets them.
NAMES = (
    "before_claim",
    "after_claim",
    "after_plan",
    "after_record",
    "before_publish",
    "during_publish",
    "after_publish",
    "before_mark",
    "after_mark",
)


#: The steps of a run in a worker; `effect` is between what a task writes and its commit.
IN_A_RUN = ("before_take", "after_take", "before_effect", "after_effect", "after_finish")

#: The steps of a slice of a backfill; its ticks then meet those of any that are published.
IN_A_SLICE = ("before_slice", "in_slice", "after_slice")

_ALL = NAMES + IN_A_RUN + IN_A_SLICE


class FailpointReached(DbbeatError):
    """Raised by a failpoint whose action is `raise`."""


def _act(name: str, action: str) -> None:
    verb, _, argument = action.partition(":")
    if verb == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif verb == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif verb == "sleep":
        time.sleep(float(argument))
    else:
        raise FailpointReached(name)


def _parse_one(text: str) -> tuple[str, Callable[[], None]]:
    match = _FORM.fullmatch(text.strip())
    if match is None or match["name"] not in _ALL:
        raise SettingsError(
            f"{VARIABLE} has {text!r}; allowed is NAME=kill|stop|raise|sleep:SECONDS[@NTH] "
            f"with NAME one of {', '.join(_ALL)}"
        )
    name, action = match["name"], match["action"]
    wanted, seen = int(match["nth"] or 0), 0

    def reach() -> None:
        nonlocal seen
        seen += 1
        if wanted in {0, seen}:
            _act(name, action)

    return name, reach


def parse(text: str) -> dict[str, Callable[[], None]]:
    """Read the form of the environment variable."""
    return dict(_parse_one(part) for part in text.split(",") if part.strip())


_armed = parse(os.environ.get(VARIABLE, ""))


def hit(name: str) -> None:
    """Say that this point was reached."""
    if _armed:
        reach = _armed.get(name)
        if reach is not None:
            reach()
