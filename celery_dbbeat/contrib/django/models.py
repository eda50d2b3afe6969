"""The tables as Django reads them: the package's own migrations make them, its API writes them."""

from __future__ import annotations

from typing import Any

from django.db import models

from celery_dbbeat.rules.trigger import KINDS

STATES = ("active", "paused", "finished", "invalid")


def _choices(*words: str) -> list[tuple[str, str]]:
    return [(word, word.replace("_", " ")) for word in words]


class Schedule(models.Model):
    """What to send and when."""

    id = models.UUIDField(primary_key=True, editable=False)
    name = models.CharField(max_length=500, unique=True)
    task = models.CharField(max_length=500)
    kind = models.CharField(max_length=20, choices=_choices(*KINDS), default="cron")
    expression = models.CharField(max_length=10_000)
    timezone = models.CharField(max_length=100, default="UTC")
    args = models.JSONField(default=list)
    kwargs = models.JSONField(default=dict)
    options = models.JSONField(default=dict)
    state = models.CharField(max_length=20, choices=_choices(*STATES), editable=False)
    reason = models.TextField(null=True, editable=False)
    note = models.TextField(null=True, editable=False)
    misfire_grace = models.DurationField(null=True)
    catch_up = models.CharField(
        max_length=20, choices=_choices("latest", "all", "none"), default="latest"
    )
    catch_up_limit = models.IntegerField(null=True)
    overlap = models.CharField(
        max_length=20,
        choices=_choices(
            "allow", "skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other"
        ),
        default="allow",
    )
    max_concurrent = models.IntegerField(default=1)
    jitter = models.DurationField()
    start_at = models.DateTimeField(null=True)
    end_at = models.DateTimeField(null=True)
    max_runs = models.BigIntegerField(null=True)
    exclude = models.JSONField(default=list)
    labels = models.JSONField(default=dict)
    description = models.TextField(default="")
    max_attempts = models.SmallIntegerField(null=True)
    on_failure = models.CharField(max_length=20, choices=_choices("dead", "retry"), default="dead")
    resend_after = models.DurationField(null=True)
    pause_after = models.IntegerField(null=True)
    owner = models.CharField(max_length=20, choices=_choices("people", "code"), editable=False)
    version = models.BigIntegerField(default=1)
    created_at = models.DateTimeField(editable=False)
    updated_at = models.DateTimeField(editable=False)

    class Meta:
        """As the database has it."""

        managed = False
        db_table = "dbbeat_schedule"
        ordering = ("name",)
        permissions = (
            ("run_schedule", "Can have schedules run now"),
            ("pause_schedule", "Can pause and resume schedules"),
            ("backfill_schedule", "Can backfill schedules"),
        )

    def __str__(self) -> str:
        return str(self.name)

    @property
    def queue(self) -> Any:
        """Where it is sent, if its options say so."""
        return self.options.get("queue")

    @property
    def priority(self) -> Any:
        """How urgent it is, if its options say so."""
        return self.options.get("priority")


class Tick(models.Model):
    """One decision of beat. Its key in the database is schedule, nominal time and task id."""

    task_id = models.UUIDField("task id", primary_key=True)
    schedule_id = models.UUIDField()
    nominal_at = models.DateTimeField("fire time")
    state = models.CharField(max_length=20)
    kind = models.CharField(max_length=20)
    attempt = models.SmallIntegerField()
    due_at = models.DateTimeField("due")
    recorded_at = models.DateTimeField("recorded")
    claimed_at = models.DateTimeField("claimed")
    sent_at = models.DateTimeField("sent", null=True)
    replica = models.TextField()
    epoch = models.BigIntegerField(null=True)
    last_at = models.DateTimeField("last fire time of the range", null=True)
    count = models.BigIntegerField("fire times")
    reason = models.TextField(null=True)
    awaited = models.BooleanField()
    outcome = models.CharField(max_length=20, null=True)
    losses = models.SmallIntegerField("sent again")
    arguments = models.JSONField(null=True)

    class Meta:
        """As the database has it."""

        managed = False
        db_table = "dbbeat_tick"
        default_permissions = ("view",)
        permissions = (("replay_tick", "Can replay dead letters"),)

    def __str__(self) -> str:
        return str(self.task_id)


class DeadLetter(Tick):
    """A tick that was given up."""

    class Meta:
        """The same table."""

        proxy = True
        verbose_name = "dead letter"
        default_permissions = ("view",)


class Run(models.Model):
    """A worker's execution of a tick. Its key in the database is task id and nominal time."""

    task_id = models.UUIDField("task id", primary_key=True)
    nominal_at = models.DateTimeField("fire time")
    schedule = models.TextField()
    status = models.CharField(max_length=20)
    attempt = models.IntegerField()
    retries = models.IntegerField()
    worker = models.TextField()
    lease_until = models.DateTimeField()
    started_at = models.DateTimeField("started")
    ended_at = models.DateTimeField("ended", null=True)
    result = models.TextField(null=True)
    error = models.TextField(null=True)
    traceback = models.TextField(null=True)
    earlier = models.JSONField("earlier runs")

    class Meta:
        """As the database has it."""

        managed = False
        db_table = "dbbeat_dedup"
        default_permissions = ("view",)

    def __str__(self) -> str:
        return str(self.task_id)


class Replica(models.Model):
    """A beat process."""

    id = models.TextField(primary_key=True)
    hostname = models.TextField()
    pid = models.IntegerField("process id")
    release = models.TextField()
    ready = models.BooleanField()
    started_at = models.DateTimeField("started")
    seen_at = models.DateTimeField("last seen")

    class Meta:
        """As the database has it."""

        managed = False
        db_table = "dbbeat_replica"
        default_permissions = ("view",)

    def __str__(self) -> str:
        return str(self.id)
