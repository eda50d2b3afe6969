"""What may be typed into the search box of schedules, by the indexes that there are.

Words are beginnings of words of the name, the task or the description; `team=billing` is a label,
`task:` and `queue:` name one exactly.
"""

import json
import re
from typing import Any

from django.db import connections, transaction
from django.db.models import Q

_WORD = re.compile(r"[^\W_]+")
# As the index dbbeat_schedule_by_word has it.
_WORDS = (
    "to_tsvector('simple'::regconfig, regexp_replace("
    "name || ' ' || task || ' ' || description, '[^[:alnum:]]+', ' ', 'g')) @@ %s::tsquery"
)

#: So many found are looked up and sorted; more are walked through in the order of names.
_FEW = 1000
# Only by bitmaps, so by the indexes of labels and words: what the planner guesses of those is often
# far off, and walking all names to find a few rows is slow. SET LOCAL would last as long as a
# transaction of the caller's.
_BY_INDEX = "SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = off"
_AS_USUAL = "SET LOCAL enable_seqscan TO DEFAULT; SET LOCAL enable_indexscan TO DEFAULT"


def search(queryset: Any, typed: str) -> Any:
    """Those schedules that all of it holds for."""
    everything, words, by_bitmap = queryset, [], False
    for part in typed.split():
        if part.startswith("task:"):
            queryset = queryset.filter(task=part.removeprefix("task:"))
        elif part.startswith("queue:"):
            queryset = queryset.filter(options__queue=part.removeprefix("queue:"))
        elif "=" in part.strip("="):
            queryset = queryset.filter(_label(*part.split("=", 1)))
            by_bitmap = True
        else:
            words += _WORD.findall(part)
    if words:
        query = " & ".join(f"'{word}':*" for word in words)
        queryset = queryset.extra(where=[_WORDS], params=[query])  # noqa: S610 - no text of theirs
        by_bitmap = True
    few = _few(queryset) if by_bitmap else None
    return queryset if few is None else everything.filter(pk__in=few)


def _few(queryset: Any) -> list[Any] | None:
    """Which those are, unless they are many."""
    with transaction.atomic(using=queryset.db), connections[queryset.db].cursor() as cursor:
        cursor.execute(_BY_INDEX)
        found = list(queryset.order_by().values_list("pk", flat=True)[: _FEW + 1])
        cursor.execute(_AS_USUAL)
    return found if len(found) <= _FEW else None


def _label(name: str, value: str) -> Q:
    found = Q(labels__contains={name: value})
    try:
        return found | Q(labels__contains={name: json.loads(value)})
    except ValueError:
        return found
