"""Pages that cost the same with a million rows.

Counting reads every row, and page 10,000 reads all before it. So rows are counted up to a limit;
beyond it a table has as many rows as Postgres last estimated, and a search "more than" the limit.
Pages go as far as the limit, too: what is further off is found by a search or a filter.
"""

from functools import cached_property
from typing import Any

from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db import connections

COUNTED = 10_000

#: Of a partitioned table its partitions, which alone have rows.
_ESTIMATE = """
    SELECT coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint
    FROM pg_class c
    WHERE c.oid = to_regclass(%s)
       OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass(%s))
"""


class EstimatingPaginator(Paginator):
    """Counts up to a limit, and estimates beyond it."""

    @cached_property
    def count(self) -> int:
        """How many rows there are, or about how many."""
        query = self.object_list.order_by()
        counted = int(query.values("pk")[: COUNTED + 1].count())
        if counted <= COUNTED or query.query.has_filters():
            return counted
        return max(counted, self._estimate())

    def _estimate(self) -> int:
        table = self.object_list.model._meta.db_table  # noqa: SLF001 - Django's own name for it
        with connections[self.object_list.db].cursor() as cursor:
            cursor.execute(_ESTIMATE, [table, table])
            return int(cursor.fetchone()[0])

    @property
    def num_pages(self) -> int:
        """No further than what is counted."""
        if self.count == 0:
            return 1
        return -(-min(self.count, COUNTED) // self.per_page)


class ListWithCompanions(ChangeList):
    """A list whose rows are shown with rows of other tables, fetched for one page at a time."""

    result_list: Any

    def get_results(self, request: Any) -> None:
        """Fetch the page, and what belongs to it."""
        super().get_results(request)
        self.result_list = list(self.result_list)
        self.model_admin.accompany(self.result_list)

    def url_for_result(self, result: Any) -> str:
        """Where one row is shown."""
        found: str = self.model_admin.url_of(result)
        return found
