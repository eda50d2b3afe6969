"""What the application does now and then. Each run leaves a row in the table of effects."""

import time

from celery import Task

from example_project.app import app
from example_project.effects import record


@app.task(bind=True)  # type: ignore[untyped-decorator]
def bill_invoices(self: Task, plan: str) -> None:
    """Bill what is due by now."""
    time.sleep(0.1)  # banks take their time
    record(self, f"billed the {plan} plan")


@app.task(bind=True)  # type: ignore[untyped-decorator]
def collect_payments(self: Task) -> None:
    """Look for payments that came in."""
    record(self, "collected payments")


@app.task(bind=True)  # type: ignore[untyped-decorator]
def send_report(self: Task, subject: str) -> None:
    """Send a report to whom it concerns."""
    record(self, f"sent the {subject} report")
