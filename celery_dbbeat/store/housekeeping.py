"""What somebody has to do from time to time: partitions ahead, and replicas long gone."""

from celery_dbbeat.store.database import Database

DAYS_AHEAD = 7


def keep(database: Database) -> None:
    """Make the partitions of the coming days, and forget replicas that have long been silent."""
    database.run("make_partitions", days=DAYS_AHEAD)
    database.run("forget_replicas")
