"""What may make a difference to a message, each by itself."""

from typing import Any

from tests.beat.comparison import Case

LONG = "x" * 3000
DEEP = [[[[[["deep"]]]]]]


def route_by_argument(
    name: str, args: list[Any], kwargs: dict[str, Any], options: dict[str, Any], **_: object
) -> dict[str, Any] | None:
    """A router that looks at the arguments."""
    return {"queue": f"for_{args[0]}", "priority": 4} if args else None


def _routed(routes: object, task: str = "tests.plain", **options: object) -> Case:
    return Case(task, ["me"], options=options, settings={"task_routes": routes})


def _with(**options: object) -> Case:
    return Case(args=[1, "two"], kwargs={"three": 3.5}, options=options)


CASES: dict[str, Case] = {
    "plain": Case(),
    "unknown task": Case("elsewhere.task"),
    "unknown task with all": Case("elsewhere.task", [1], {"a": 2}, {"queue": "q", "expires": 9}),
    "arguments": _with(),
    "unicode": Case(args=["žluťoučký 🐎", "\u2028"], kwargs={"ключ": "値"}),
    "big arguments": Case(args=[LONG, DEEP, list(range(500))], kwargs={"k": LONG, "d": DEEP}),
    "nulls": Case(args=[None, True, {}, []], kwargs={"none": None}),
    "queue": _with(queue="another"),
    "exchange and routing key": _with(exchange="an_exchange", routing_key="a.key"),
    "routing key alone": _with(routing_key="a.key"),
    "exchange type": _with(exchange="an_exchange", routing_key="a.key", exchange_type="topic"),
    "priority": _with(priority=3),
    "priority zero": _with(priority=0),
    "headers": _with(headers={"mine": {"deep": [1, None]}, "dbbeat": "not theirs to set"}),
    "headers null": _with(headers=None),
    "expires int": _with(expires=120),
    "expires float": _with(expires=7.5),
    "expires zero": _with(expires=0),
    "expires past": _with(expires=-5),
    "expires text": _with(expires="2036-01-01T00:00:00+00:00"),
    "expires past text": _with(expires="2016-01-01T00:00:00+00:00"),
    "expires null over the class": Case("tests.expires", options={"expires": None}),
    "compression": _with(compression="zlib"),
    "pickle": _with(serializer="pickle"),
    "delivery mode": _with(delivery_mode=1),
    "time limit": _with(time_limit=30),
    "soft time limit": _with(soft_time_limit=20),
    "both limits": _with(time_limit=30, soft_time_limit=20),
    "limits over the class": Case("tests.limits", options={"time_limit": 8}),
    "ignore result": _with(ignore_result=True),
    "keep result over the class": Case("tests.ignores", options={"ignore_result": False}),
    "countdown": _with(countdown=30),
    "eta": _with(eta="2036-01-01T00:00:00+00:00"),
    "shadow": _with(shadow="another name"),
    "shadow by the class": Case("tests.shadowed", ["me"]),
    "own apply_async": Case("tests.tagged", ["me"]),
    "apply_async patched on the task": Case("tests.patched", ["me"]),
    "models": Case("tests.models", ["me"], {"a": 1}),
    "bound": Case("tests.bound", [1]),
    "untyped": Case("tests.untyped", [1, 2, 3]),
    "class queue": Case("tests.queue"),
    "class queue overruled": Case("tests.queue", options={"queue": "another"}),
    "class routing": Case("tests.routing"),
    "class priority": Case("tests.priority"),
    "class priority overruled": Case("tests.priority", options={"priority": 1}),
    "class serializer": Case("tests.serializer", ["me"]),
    "class compression": Case("tests.compression", ["me"]),
    "class delivery mode": Case("tests.transient"),
    "class expires": Case("tests.expires"),
    "class ignores result": Case("tests.ignores"),
    "class soft limit": Case("tests.soft"),
    "class limits": Case("tests.limits"),
    "class mandatory": Case("tests.mandatory"),
    "route by name": _routed({"tests.plain": {"queue": "routed"}}),
    "route by pattern": _routed({"tests.*": {"queue": "routed", "priority": 2}}),
    "route of another": _routed({"other.*": {"queue": "routed"}}),
    "route to a queue's name": _routed({"tests.plain": "routed"}),
    "route of an unknown task": _routed({"elsewhere.*": "routed"}, "elsewhere.task"),
    "route against an option": _routed({"tests.*": {"queue": "routed"}}, queue="optional"),
    "route against the class": _routed({"tests.*": {"queue": "routed"}}, "tests.queue"),
    "route with options": _routed(
        {"tests.*": {"queue": "routed", "serializer": "pickle", "compression": "zlib"}}
    ),
    "route with headers": _routed({"tests.*": {"queue": "routed", "headers": {"routed": True}}}),
    "route with retry": _routed({"tests.*": {"queue": "routed", "retry": False}}),
    "route with expiration": _routed({"tests.*": {"queue": "routed", "expiration": 60}}),
    "route by a function": _routed((route_by_argument,)),
    "routes of both kinds": _routed(({"other.*": "routed"}, route_by_argument)),
    "default queue": Case(settings={"task_default_queue": "of_the_app"}),
    "default exchange": Case(
        settings={
            "task_default_exchange": "app_exchange",
            "task_default_exchange_type": "topic",
            "task_default_routing_key": "app.key",
        }
    ),
    "default priority": Case(settings={"task_default_priority": 7}),
    "default serializer": Case(args=["me"], settings={"task_serializer": "pickle"}),
    "default compression": Case(args=["me"], settings={"task_compression": "zlib"}),
    "default delivery mode": Case(settings={"task_default_delivery_mode": "transient"}),
    "all results ignored": Case(settings={"task_ignore_result": True}),
    "another time zone": Case(options={"expires": 60}, settings={"timezone": "Asia/Tokyo"}),
    "local time": Case(
        options={"expires": 60}, settings={"timezone": "Asia/Tokyo", "enable_utc": False}
    ),
    "old protocol": Case(args=["me"], settings={"task_protocol": 1}),
    "sent events": Case(args=["me"], settings={"task_send_sent_event": True}),
    "shallow reprs": Case(args=[DEEP], settings={"task_repr_maxlevels": 2}),
}
