"""One call that makes an app use this scheduler."""

from celery import Celery

SCHEDULER = "celery_dbbeat:DatabaseScheduler"


def setup(app: Celery, url: str | None = None) -> None:
    """Make `celery beat` of this app use the database scheduler.

    >>> app = Celery("shop", broker="redis://localhost")
    >>> setup(app, "postgresql+psycopg://shop@localhost/shop")

    `url` is where the schedules live; without it, `dbbeat_url` or DBBEAT_URL says.
    """
    app.conf.beat_scheduler = SCHEDULER
    if url is not None:
        app.conf.dbbeat_url = url
