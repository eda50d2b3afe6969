"""Tasks in all the ways that make a difference to the message."""

import warnings
from functools import partial
from typing import Any

from celery import Celery, Task
from celery.exceptions import CDeprecationWarning

#: Class options, by the name of the task that has them.
CLASS_OPTIONS: dict[str, dict[str, Any]] = {
    "tests.plain": {},
    "tests.queue": {"queue": "of_the_class"},
    "tests.routing": {"exchange": "class_exchange", "routing_key": "class.key"},
    "tests.priority": {"priority": 6},
    "tests.serializer": {"serializer": "pickle"},
    "tests.compression": {"compression": "zlib"},
    "tests.transient": {"delivery_mode": 1},
    "tests.expires": {"expires": 90},
    "tests.ignores": {"ignore_result": True},
    "tests.soft": {"soft_time_limit": 5},
    "tests.limits": {"soft_time_limit": 5, "time_limit": 9},
    "tests.impossible_limits": {"soft_time_limit": 9, "time_limit": 5},
    "tests.mandatory": {"mandatory": True},
    "tests.untyped": {"typing": False},
}


class Tagged(Task):  # type: ignore[misc]
    """Adds a header and an argument to each message."""

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:  # noqa: ANN401
        options["headers"] = {**(options.get("headers") or {}), "tag": "from the class"}
        return super().apply_async([*(args or []), "tagged"], kwargs, **options)


class Shadowed(Task):  # type: ignore[misc]
    """Shows its argument in the name that monitors see."""

    def shadow_name(self, args: Any, *_: object) -> str:  # noqa: ANN401
        return f"shadow of {args[0]}"


def register(app: Celery) -> None:
    """Give the app all of them."""
    with warnings.catch_warnings():
        # Routing options on a class are to go with Celery 6; many have them still.
        warnings.simplefilter("ignore", CDeprecationWarning)
        _register(app)
        app.finalize()
    _patch(app.tasks["tests.patched"])


def _register(app: Celery) -> None:
    # Not shared: a task is by default registered with every app of the process.
    task = partial(app.task, shared=False)
    for name, options in CLASS_OPTIONS.items():
        task(name=name, **options)(anything)
    task(name="tests.two")(two)
    task(name="tests.bound", bind=True)(bound)
    task(name="tests.tagged", base=Tagged)(anything)
    task(name="tests.shadowed", base=Shadowed)(anything)
    # What Celery sets on a task with `pydantic=True`.
    task(name="tests.models", _dump_pydantic_arguments=staticmethod(dump_models))(anything)
    task(name="tests.patched")(anything)


def _patch(task: Task) -> None:
    """Wrap `apply_async` of this one task, as instrumentation does."""
    original = task.apply_async

    def apply_async(args: Any = None, kwargs: Any = None, **options: Any) -> Any:  # noqa: ANN401
        options["headers"] = {**(options.get("headers") or {}), "patched": True}
        return original(args, kwargs, **options)

    task.apply_async = apply_async


def anything(*args: object, **kwargs: object) -> None:
    """Takes whatever comes."""


def two(first: int, second: int = 2) -> None:
    """Takes one argument or two."""


def bound(self: Task, only: int) -> None:
    """Takes one argument besides itself."""


def dump_models(args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """What a validation makes of the arguments."""
    return [{"model": arg} for arg in args], {**kwargs, "validated": True}
