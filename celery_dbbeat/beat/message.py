"""One tick as a message: the same that `apply_async` would have sent.

Celery's own `apply_async` is the definition, and is what sends whenever anything about the task,
the app or the options could make a difference from one message to the next. For plain cases,
which are nearly all, the part of its work that is the same for every tick of a (task, options) is
done once, and each tick goes through Celery's own message building and publishing with that. A
test compares the two field by field.
"""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from types import FunctionType, ModuleType
from typing import Any

import celery.app.base
import celery.app.task
from celery import Celery, Task
from celery.app.routes import MapRoute
from celery.result import denied_join_result
from celery.signals import before_task_publish
from celery.utils.nodenames import anon_nodename
from celery.utils.saferepr import saferepr
from kombu import Producer, Queue

from celery_dbbeat.beat.delivery import Delivery, read_delivery
from celery_dbbeat.rules.options import check_options
from celery_dbbeat.rules.schedule import parse_object
from celery_dbbeat.store.cursors import Outgoing

#: Options whose effect is the same for every message.
_PLAIN = frozenset(
    {
        "queue",
        "routing_key",
        "exchange",
        "exchange_type",
        "priority",
        "headers",
        "serializer",
        "compression",
        "delivery_mode",
        "time_limit",
        "soft_time_limit",
        "ignore_result",
        "expires",
    }
)


_NUMBERS = frozenset({int, float, bool, type(None)})
_SHORT = 100
_LONGEST_REMEMBERED = 1000


@dataclass(frozen=True)
class _Prepared:
    """What all ticks of one (task, options) have in common."""

    check_arguments: Any
    message: dict[str, Any]
    delivery: dict[str, Any]
    headers: dict[str, Any]


class Messages:
    """Builds and publishes messages for one app."""

    def __init__(self, app: Celery) -> None:
        """Look at the app once: what of it may differ from message to message."""
        self._app = app
        self._app_is_plain = (
            # Details differ in older versions, which build each message themselves.
            celery.VERSION >= (5, 7)
            and _as_celery_wrote_it(app.send_task, celery.app.base)
            and not app.conf.task_always_eager
            and app.amqp.create_task_message == app.amqp.as_task_v2
            and all(isinstance(route, MapRoute) for route in app.amqp.router.routes)
        )
        self._levels = app.conf.get("task_repr_maxlevels", 3)
        self._common = {
            "origin": anon_nodename(),
            "reply_to": app.thread_oid,
            "create_sent_event": app.conf.task_send_sent_event,
        }
        self._prepare = lru_cache(maxsize=4096)(self._prepare_now)
        self._argsrepr = _remembered(self._argsrepr_now)
        self._kwargsrepr = _remembered(self._kwargsrepr_now)

    def send(self, producer: Producer, one: Outgoing) -> None:
        """Publish one tick; raises when its message cannot be built."""
        schedule = one.schedule
        prepared = self._prepare(schedule.task, schedule.options)
        if prepared is None:
            self._send_as_celery_does(producer, one)
            return
        message, delivery = prepared.message, prepared.delivery
        if one.tick.waited and message["expires"] is not None:
            left = _left(message["expires"], one.tick.waited)
            message, delivery = {**message, "expires": left}, {**delivery, "expiration": left}
        args, kwargs = schedule.parsed_args(), schedule.parsed_kwargs()
        if prepared.check_arguments is not None:
            prepared.check_arguments(*args, **kwargs)
        built = self._app.amqp.as_task_v2(
            str(one.tick.task_id),
            schedule.task,
            args,
            kwargs,
            argsrepr=self._argsrepr(schedule.args),
            kwargsrepr=self._kwargsrepr(schedule.kwargs),
            **self._common,
            **message,
        )
        self._app.amqp.send_task_message(
            producer,
            schedule.task,
            built,
            headers={**deepcopy(prepared.headers), **headers_of(one)},
            # Declared once a connection, by the publisher; but a receiver may look at it.
            declare=None if before_task_publish.receivers else [],
            retry=False,
            **delivery,
        )

    def queue_of(self, one: Outgoing) -> Queue | None:
        """The queue that has to exist before this tick is published, where that is known."""
        prepared = self._prepare(one.schedule.task, one.schedule.options)
        return None if prepared is None else prepared.delivery.get("queue")

    def delivery_of(self, one: Outgoing) -> Delivery:
        """What can be known of where and when its message may be taken."""
        try:
            return self._delivery_of(one)
        except Exception:  # noqa: BLE001 - whatever user code in routers raises, or options edited since hold
            return Delivery()

    def _delivery_of(self, one: Outgoing) -> Delivery:
        schedule = one.schedule
        prepared = self._prepare(schedule.task, schedule.options)
        if prepared is not None:
            found = {**prepared.delivery, "expires": prepared.message["expires"]}
        else:
            task = self._app.tasks.get(schedule.task)
            # As apply_async does.
            inherited = {} if task is None else task._get_exec_options()  # noqa: SLF001
            options = {**inherited, **schedule.parsed_options()}
            args, kwargs = schedule.parsed_args(), schedule.parsed_kwargs()
            found = {
                **self._app.amqp.router.route(dict(options), schedule.task, args, kwargs, task),
                **{name: options.get(name) for name in ("expires", "eta", "countdown")},
            }
        return read_delivery(found, self._app.timezone)

    def _send_as_celery_does(self, producer: Producer, one: Outgoing) -> None:
        schedule = one.schedule
        options = schedule.parsed_options()
        check_options(options)
        options["headers"] = {**(options.get("headers") or {}), **headers_of(one)}
        options.setdefault("retry", False)
        task = self._app.tasks.get(schedule.task)
        expires = options.get("expires", getattr(task, "expires", None))
        if one.tick.waited and isinstance(expires, int | float):
            options["expires"] = _left(expires, one.tick.waited)
        send = self._app.send_task if task is None else task.apply_async
        name = (schedule.task,) if task is None else ()
        # Nobody in this process waits for the result, so the backend need not listen for it.
        with denied_join_result():
            send(
                *name,
                schedule.parsed_args(),
                schedule.parsed_kwargs(),
                task_id=str(one.tick.task_id),
                producer=producer,
                **options,
            )

    def _argsrepr_now(self, args: str) -> str:
        return self._repr(json.loads(args) or (), self._app.amqp.argsrepr_maxsize)

    def _kwargsrepr_now(self, kwargs: str) -> str:
        return self._repr(json.loads(kwargs), self._app.amqp.kwargsrepr_maxsize)

    def _repr(self, value: Any, size: int) -> str:
        # Celery's own takes as long as all the rest; for a few numbers it is Python's.
        if isinstance(value, list) and all(type(part) in _NUMBERS for part in value):
            text = repr(value)
            if len(text) < _SHORT:
                return text
        return str(saferepr(value, size, maxlevels=self._levels))

    def _prepare_now(self, task_name: str, options_text: str) -> _Prepared | None:
        """What the ticks have in common; None when Celery itself has to build each message."""
        options = parse_object("options", options_text)
        check_options(options)
        task = self._app.tasks.get(task_name)
        if not (self._app_is_plain and _plain_options(options) and _plain_task(task)):
            return None
        headers = dict(options.pop("headers", None) or {})
        if task is not None:
            inherited = dict(task._get_exec_options())  # noqa: SLF001 - as apply_async does
            options = {**inherited, **options}
            options.setdefault("ignore_result", task.ignore_result)
        message = {
            name: options.pop(name, None) for name in ("time_limit", "soft_time_limit", "expires")
        }
        message["ignore_result"] = options.pop("ignore_result", None)
        delivery = self._app.amqp.router.route(options, task_name, [], {}, task)
        # The headers of a tick and the publisher's own care take the place of a route's.
        for name in ("headers", "retry", "retry_policy"):
            delivery.pop(name, None)
        if message["expires"] is not None:
            delivery["expiration"] = max(0, message["expires"])
        check = getattr(task, "__header__", None) if task is not None and task.typing else None
        return _Prepared(check, message, delivery, headers)


def headers_of(one: Outgoing) -> dict[str, Any]:
    """The headers that every tick carries."""
    tick, zone = one.tick, one.schedule.timezone
    header = {
        "schedule": one.schedule.name,
        "nominal": tick.nominal_at.isoformat(),
        "kind": tick.kind,
        "attempt": tick.attempt,
    }
    if zone != "UTC":
        header["timezone"] = zone
    return {
        "celery_beat_task": True,
        "periodic_task_name": one.schedule.name,
        "dbbeat": header,
    }


def _remembered(representation: Callable[[str], str]) -> Callable[[str], str]:
    """Remember those of short texts; thousands of long ones would fill the memory."""
    remember = lru_cache(maxsize=4096)(representation)
    return lambda text: remember(text) if len(text) <= _LONGEST_REMEMBERED else representation(text)


def _left(expires: float, waited: timedelta) -> float:
    """What is left of `expires`, which counts from the first sending."""
    return max(0.0, expires - waited.total_seconds())


def _plain_options(options: dict[str, Any]) -> bool:
    expires = options.get("expires")
    return options.keys() <= _PLAIN and (expires is None or isinstance(expires, int | float))


def _plain_task(task: Task | None) -> bool:
    if task is None:
        return True
    return (
        _as_celery_wrote_it(task.apply_async, celery.app.task)
        and _as_celery_wrote_it(task.shadow_name, celery.app.task)
        and getattr(task, "_dump_pydantic_arguments", None) is None
        and not (task.soft_time_limit and task.time_limit)
        and (task.expires is None or isinstance(task.expires, int | float))
    )


def _as_celery_wrote_it(method: Any, home: ModuleType) -> bool:
    """Not overridden by a subclass, nor patched on an object or a class by instrumentation."""
    function = getattr(method, "__func__", None)
    return type(function) is FunctionType and function.__globals__ is vars(home)
