"""What may be typed into the search box of schedules, by the indexes that there are.

Words are beginnings of words of the name, the task or the description; `team=billing` is a label,
`task:` and `queue:` name one exactly.
"""

import json
import re
from typing import Any

from django.db.models import Q

_WORD = re.compile(r"[^\W_]+")
# As the index dbbeat_schedule_by_word has it.
_WORDS = (
    "to_tsvector('simple'::regconfig, regexp_replace("
    "name || ' ' || task || ' ' || description, '[^[:alnum:]]+', ' ', 'g')) @@ %s::tsquery"
)


def search(queryset: Any, typed: str) -> Any:
    """Those schedules that all of it holds for."""
    words = []
    for part in typed.split():
        if part.startswith("task:"):
            queryset = queryset.filter(task=part.removeprefix("task:"))
        elif part.startswith("queue:"):
            queryset = queryset.filter(options__queue=part.removeprefix("queue:"))
        elif "=" in part.strip("="):
            queryset = queryset.filter(_label(*part.split("=", 1)))
        else:
            words += _WORD.findall(part)
    if words:
        query = " & ".join(f"'{word}':*" for word in words)
        queryset = queryset.extra(where=[_WORDS], params=[query])  # noqa: S610 - no text of theirs
    return queryset


def _label(name: str, value: str) -> Q:
    found = Q(labels__contains={name: value})
    try:
        return found | Q(labels__contains={name: json.loads(value)})
    except ValueError:
        return found
