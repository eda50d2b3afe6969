"""A dead tick that somebody has sent again goes out by the next beat, and is awaited anew."""

from datetime import timedelta

from celery import Celery

from celery_dbbeat import Schedules
from tests.beat.broker import redis_ids
from tests.beat.leader import AWAITED, DONE, Leader, Send, attempts, fate
from tests.store.kit import Person
from tests.support.guarded import age, run


def test_from_dead_to_done(
    beat: Leader, person: Person, sent: Send, redis_url: str, database_url: str
) -> None:
    app = Celery("shop", broker="memory://", set_as_current=False)
    app.conf.dbbeat_url = database_url
    identity = sent()
    run(person, identity, "failed", error="ValueError: no")
    beat.look()
    assert fate(person, identity) == ("dead", "failed", False)
    # Whatever its grace: it was sent in time before.
    person.do("UPDATE dbbeat_schedule SET misfire_grace = '1 minute'")
    age(person, timedelta(hours=1))
    (letter,) = Schedules(app).dead()
    Schedules(app).replay(letter.task_id)
    assert beat.dispatcher.recover()
    assert redis_ids(redis_url) == [str(letter.task_id)]
    assert attempts(redis_url) == [2]
    assert person.ticks(identity)[0]["kind"] == "manual"
    # How the run before ended counts no more.
    beat.look()
    assert fate(person, identity) == AWAITED
    run(person, identity, "done", attempt=2)
    beat.look()
    assert fate(person, identity) == DONE
