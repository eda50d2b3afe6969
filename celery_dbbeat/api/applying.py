"""Schedules made to be as a file says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from celery_dbbeat.api.documents import SET_LABEL, Difference, Document
from celery_dbbeat.api.managing import Managing, Progress, refuse_the_code
from celery_dbbeat.errors import FieldError
from celery_dbbeat.store.managing import AT_ONCE, COLUMNS, Draft, ScheduleInfo


class Applying(Managing):
    """What files do with schedules."""

    def compare(self, document: Document, *, prune: bool = False) -> Difference:
        """What applying a document would change; nothing is written.

        It makes and changes what the document names. With `prune` it also deletes what was applied
        from a document of the same `set` before, and is not in this one. Where the code owns one
        of them, that is an error.
        """
        drafts = {draft.name: draft for draft in self.drafts(document.definitions())}
        found = self.get_many(drafts)
        for info in found.values():
            refuse_the_code(info.name, info.owner, "changed")
        changed = {name: _changes(found[name], drafts[name]) for name in sorted(found)}
        return Difference(
            created=tuple(sorted(drafts.keys() - found.keys())),
            changed={name: fields for name, fields in changed.items() if fields},
            unchanged=tuple(name for name, fields in changed.items() if not fields),
            deleted=tuple(self._applied_before(document, drafts)) if prune else (),
        )

    def apply(
        self, document: Document, *, prune: bool = False, progress: Progress | None = None
    ) -> Difference:
        """Make the schedules be as a document says; returns what that changed.

        >>> document = documents.read(Path("schedules.yaml").read_text(), as_yaml=True)
        >>> schedules.apply(document, prune=True).created
        ('invoices',)

        What is paused or finished stays so where the document does not say otherwise. Doing it
        again changes nothing; where it was cut short, do it again.
        """
        difference = self.compare(document, prune=prune)
        touched = {*difference.created, *difference.changed}
        definitions = [one for one in document.definitions() if one["name"] in touched]
        self.create_many(definitions, on_conflict="update", progress=progress)
        self.delete_many(difference.deleted, progress=progress)
        return difference

    def _applied_before(self, document: Document, drafts: Mapping[str, Draft]) -> Iterator[str]:
        if document.set is None:
            raise FieldError("set", "set is missing, which prune goes by; allowed is text")
        page = self.list(labels={SET_LABEL: document.set}, owner="people", limit=AT_ONCE)
        while page:
            yield from (info.name for info in page if info.name not in drafts)
            page = self.list(
                labels={SET_LABEL: document.set},
                owner="people",
                limit=AT_ONCE,
                after=page[-1].name,
            )


def _changes(info: ScheduleInfo, draft: Draft) -> dict[str, tuple[object, object]]:
    before = info.draft()
    kept = {"state", "note"} if draft.state is None else set()
    return {
        name: (getattr(before, name), getattr(draft, name))
        for name in COLUMNS
        if name not in kept and getattr(before, name) != getattr(draft, name)
    }
