"""What a browser sends, and what it is shown."""

import json
import re
from collections.abc import Mapping
from html import unescape
from typing import Any

LIST = "/admin/dbbeat/schedule/"
ADD = f"{LIST}add/"

#: What the form sends when nothing is changed in it.
BLANK: Mapping[str, str] = {
    "name": "good", "task": "shop.add", "kind": "interval", "expression": "60",
    "timezone": "UTC", "args": "[1]", "kwargs": "{}", "options": "{}", "labels": "{}",
    "exclude": "[]", "queue": "", "priority": "", "description": "", "start_at": "", "end_at": "",
    "max_runs": "", "jitter": "0", "misfire_grace": "1 hour", "catch_up": "latest",
    "catch_up_limit": "", "overlap": "allow", "max_concurrent": "1", "max_attempts": "",
    "on_failure": "dead", "resend_after": "", "pause_after": "", "version": "",
}  # fmt: skip


def form(**changed: object) -> dict[str, str]:
    """What is sent of a form in which this was typed."""
    typed = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in changed.items()
    }
    return {**BLANK, **typed}


def page(response: Any) -> str:
    """The text of a page."""
    text = response.content.decode()
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text)))


def errors(response: Any) -> dict[str, list[str]]:
    """What a form says is wrong."""
    return {name: list(said) for name, said in response.context["adminform"].form.errors.items()}


def shown(response: Any) -> dict[str, str]:
    """What a browser would send of a form as it is shown, unless something is typed."""
    bound = response.context["adminform"].form
    return {one.html_name: "" if one.value() is None else str(one.value()) for one in bound}
