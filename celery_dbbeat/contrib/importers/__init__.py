"""Schedules from another beat: read, converted, compared with what is here, written.

    reader ──▶ entries ──▶ decide ──▶ outcomes ──▶ write
    one a source           pure       the dry run's table

A reader knows one source. It gives an `Entry` for each schedule: the row that it becomes, the
instant of its last run over there, and remarks on what will be different; or a `Refused`, with the
reason. What a row means here is what it meant there: intervals go on from their last run, times of
a crontab are read by Celery's own parser.

The switch: the old beat stops, the import runs, the new beat starts. A fire time between the old
beat's last run and the import is neither lost nor sent twice, because a schedule goes on here from
its last run there; what is overdue by then is decided by the schedule's own misfire policy.

Importing again changes nothing, unless something changed over there. What people changed here
since is never written over.
"""

from celery_dbbeat.contrib.importers.entry import Entry, Refused
from celery_dbbeat.contrib.importers.transfer import Outcome, transfer

__all__ = ["Entry", "Outcome", "Refused", "transfer"]
