"""The Celery app. One call makes celery-dbbeat its scheduler and guards its workers.

The environment wins over both addresses below: CELERY_BROKER_URL is Celery's own variable,
DBBEAT_URL is celery-dbbeat's.
"""

from celery import Celery
from celery.schedules import crontab

from celery_dbbeat import setup

app = Celery("example_project", include=["example_project.tasks"])
app.conf.update(
    broker_url="redis://127.0.0.1:6379/0",
    broker_connection_retry_on_startup=True,
    task_ignore_result=True,
    worker_redirect_stdouts=False,  # a traceback in the log stays in one piece
    # A Postgres of its own that needs no installing. Yours: postgresql+psycopg://user@host/name
    dbbeat_url="embedded",
)
setup(app)

# What the code wants is kept in step with the database at each start. What people add there, by
# plain SQL, stays beside it.
app.conf.beat_schedule = {
    "bill-invoices": {
        "task": "example_project.tasks.bill_invoices",
        "schedule": 1.0,
        "kwargs": {"plan": "monthly"},
    },
    "collect-payments": {
        "task": "example_project.tasks.collect_payments",
        "schedule": 1.0,
    },
    "weekly-report": {
        "task": "example_project.tasks.send_report",
        "schedule": crontab(minute=0, hour=7, day_of_week="mon"),
        "args": ["sales"],
    },
}
