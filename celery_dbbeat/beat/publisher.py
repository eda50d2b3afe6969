"""Publish a batch, and know what became of each message.

Three ways, by what the transport offers:

- a pipeline, where kombu can batch (Redis): the batch arrives as a whole or is sent again;
- windows of confirms (RabbitMQ): all messages go out, then the broker's word on each is awaited;
- one by one, with any other transport.

Sending again is always safe for the tick, because its id stays the same. So whatever is not known
to have arrived is reported as unsent, never as sent. Nothing here waits longer than the time-out.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import kombu.exceptions
from celery import Celery
from kombu import Connection, Producer, Queue
from kombu.common import Broadcast

from celery_dbbeat.beat.confirms import Confirms
from celery_dbbeat.beat.delivery import Delivery
from celery_dbbeat.beat.depth import depth
from celery_dbbeat.beat.message import Messages
from celery_dbbeat.errors import BrokerUnavailable
from celery_dbbeat.failpoints import hit
from celery_dbbeat.store.cursors import Outgoing

logger = logging.getLogger(__name__)

#: Redis is full, or became a replica. By name, as its client need not be there.
_NO_WRITES = frozenset({"OutOfMemoryError", "ReadOnlyError"})


@dataclass(slots=True)
class Outcome:
    """What became of each message of a batch."""

    #: The broker has them.
    sent: list[Outgoing] = field(default_factory=list)
    #: The broker did not take them, for the reason given; another try may fare better.
    refused: dict[Outgoing, str] = field(default_factory=dict)
    #: No message can be made of them, for the reason given.
    impossible: dict[Outgoing, str] = field(default_factory=dict)
    #: Not known to have arrived, because the connection broke.
    unsent: list[Outgoing] = field(default_factory=list)
    #: What broke it.
    broken: BaseException | None = None

    def give_up(self, unsent: Sequence[Outgoing], error: BaseException | None) -> None:
        """Leave these unsent, because of this error."""
        self.unsent.extend(unsent)
        self.broken = error


class Publisher:
    """One connection to the broker, made when needed and made again when it broke."""

    def __init__(self, app: Celery, timeout: float) -> None:
        """Connect at first use, not here."""
        self._app = app
        self._timeout = timeout
        self._messages = Messages(app)
        self._connection: Connection | None = None
        self._producer: Producer | None = None
        self._confirms: Confirms | None = None
        self._declared: set[str] = set()

    def ensure(self) -> None:
        """Be connected, or raise BrokerUnavailable; a connection that broke is made anew."""
        self._connected()

    def _connected(self) -> Producer:
        if self._producer is not None and self._still_works(self._producer):
            return self._producer
        try:
            self._producer = self._connect()
        except self._errors() as error:
            self.close()
            raise BrokerUnavailable(f"the broker cannot be reached: {error}") from error
        return self._producer

    def publish(self, batch: Sequence[Outgoing]) -> Outcome:
        """Publish the batch; `ensure` has to have succeeded before."""
        outcome = Outcome()
        if self._producer is None:
            outcome.give_up(batch, BrokerUnavailable("there is no connection to the broker"))
            return outcome
        error = self._attempt(self._producer, batch, outcome)
        if error is not None:
            known = {id(one) for one in (*outcome.sent, *outcome.refused, *outcome.impossible)}
            unsent = [one for one in batch if id(one) not in known]
            if _is_the_brokers(error):
                outcome.give_up(unsent, error)
            else:
                self._one_by_one(unsent, outcome)
        return outcome

    def terminate(self, task_ids: Sequence[UUID]) -> None:
        """Have workers end the runs of these by force, where their pools can; waits for none."""
        ids = [str(one) for one in task_ids]
        try:
            if ids:
                self._app.control.revoke(ids, terminate=True, connection=self._connection)
        except self._errors() as error:
            self.close()
            logger.warning("workers were not told to end %d runs: %s", len(ids), error)

    def delivery_of(self, one: Outgoing) -> Delivery:
        """Where its message goes and when it may be taken, as far as that can be known."""
        return self._messages.delivery_of(one)

    def depth(self, queue: str) -> int | None:
        """How many messages wait in a queue; None where the transport cannot tell."""
        self._connected()
        if self._connection is None:
            raise BrokerUnavailable("there is no connection to the broker")
        try:
            return depth(self._connection, queue)
        except self._errors() as error:
            self.close()
            raise BrokerUnavailable(
                f"the broker did not say what waits in {queue}: {error}"
            ) from error

    def _attempt(
        self, producer: Producer, batch: Sequence[Outgoing], outcome: Outcome
    ) -> BaseException | None:
        """Publish, and return what broke the connection, if it broke."""
        try:
            for window in _windows(batch):
                self._publish_window(producer, window, outcome)
        except self._errors() as error:
            self.close()
            return error
        return None

    def _one_by_one(self, todo: Sequence[Outgoing], outcome: Outcome) -> None:
        """Was it one message that broke the connection? Where it can be made anew, find out.

        RabbitMQ closes a channel because of one bad message, and what user code raises while a
        message is built may look like an error of the connection. What fails by itself as well is
        refused, so that it does not hold up the others for ever.
        """
        for place, one in enumerate(todo):
            try:
                producer = self._connected()
            except BrokerUnavailable as unavailable:
                outcome.give_up(todo[place:], unavailable)
                return
            error = self._attempt(producer, [one], outcome)
            if _is_the_brokers(error):
                outcome.give_up(todo[place:], error)
                return
            if error is not None:
                outcome.refused[one] = f"{type(error).__name__}: {error}"

    def close(self) -> None:
        """Drop the connection."""
        connection, self._connection = self._connection, None
        self._producer = self._confirms = None
        self._declared.clear()
        if connection is not None:
            try:
                connection.collect(socket_timeout=min(1.0, self._timeout))
            except Exception:
                logger.debug("the broker connection did not close cleanly", exc_info=True)

    def _connect(self) -> Producer:
        connection = self._app.connection_for_write(
            connect_timeout=min(self._timeout, self._app.conf.broker_connection_timeout or 4),
            transport_options=self._limits(),
        )
        self._connection = connection
        connection.ensure_connection(
            max_retries=max(0, len(connection.alt) - 1),
            interval_start=0,
            interval_step=0,
            timeout=self._timeout,
        )
        channel = connection.channel()
        if connection.transport.driver_name == "py-amqp":
            self._confirms = Confirms(connection, channel, self._timeout)
        return Producer(channel, auto_declare=False)

    def _limits(self) -> dict[str, Any]:
        """Transport options that keep every wait below the time-out."""
        given = self._app.conf.broker_transport_options or {}
        with self._app.connection_for_write() as connection:
            driver = connection.transport.driver_type
        names = {
            "redis": ("socket_timeout", "socket_connect_timeout"),
            "amqp": ("read_timeout", "write_timeout"),
        }.get(driver, ())
        limits: dict[str, Any] = {
            name: min(given.get(name) or self._timeout, self._timeout) for name in names
        }
        return limits | {"confirm_publish": False} if driver == "amqp" else limits

    def _still_works(self, producer: Producer) -> bool:
        """Notice a broker that went away since the last batch, before anything is claimed."""
        try:
            self._probe(producer)
        except self._errors() as error:
            self.close()
            if _timed_out(error):
                raise BrokerUnavailable(f"the broker does not answer: {error}") from error
            logger.warning("the connection to the broker broke: %s", error)
            return False
        return True

    def _probe(self, producer: Producer) -> None:
        if self._confirms is not None:
            self._confirms.probe()
            return
        client = getattr(producer.channel, "client", None)
        ping = getattr(client, "ping", None)
        if ping is not None:
            ping()

    def _errors(self) -> tuple[type[BaseException], ...]:
        connection = self._connection or self._app.connection_for_write()
        library = getattr(kombu.exceptions, "BatchPublishError", kombu.exceptions.OperationalError)
        found = (
            *connection.connection_errors,
            *connection.channel_errors,
            kombu.exceptions.OperationalError,
            library,
            OSError,
        )
        # Redis' transport counts KeyError among them; here that is an unknown name in the options.
        return tuple(error for error in found if not issubclass(error, LookupError))

    def _publish_window(
        self, producer: Producer, window: Sequence[Outgoing], outcome: Outcome
    ) -> None:
        if self._confirms is not None:
            self._publish_confirmed(producer, self._confirms, window, outcome)
        elif getattr(producer, "supports_batch_publish", False):
            with producer.batch(max_size=4 * len(window)):
                handed = self._hand_over(producer, window, outcome)
            outcome.sent.extend(handed)
        else:
            for one in window:
                outcome.sent.extend(self._hand_over(producer, [one], outcome))

    def _publish_confirmed(
        self, producer: Producer, confirms: Confirms, window: Sequence[Outgoing], outcome: Outcome
    ) -> None:
        confirms.begin()
        handed = self._hand_over(producer, window, outcome)
        refused = confirms.await_all()
        if refused:
            # Perhaps somebody deleted a queue: the next batch declares them anew.
            self._declared.clear()
            confirms.forget_declared()
        for one in handed:
            reason = refused.get(str(one.tick.task_id))
            if reason is None:
                outcome.sent.append(one)
            else:
                outcome.refused[one] = reason

    def _hand_over(
        self, producer: Producer, window: Iterable[Outgoing], outcome: Outcome
    ) -> list[Outgoing]:
        """Give each message to the transport; one that cannot be built does not stop the others."""
        handed = []
        broker_errors = self._errors()
        for one in window:
            try:
                self._declare(producer, self._messages.queue_of(one))
                self._messages.send(producer, one)
            except broker_errors:
                raise
            except Exception as error:  # noqa: BLE001 - whatever user code in routers or serializers raises
                outcome.impossible[one] = f"{type(error).__name__}: {error}"
            else:
                handed.append(one)
            hit("during_publish")
        return handed

    def _declare(self, producer: Producer, queue: Queue | None) -> None:
        # As apply_async has it, a broadcast is for who listens: beat makes no queue for it.
        if queue is None or isinstance(queue, Broadcast):
            return
        if queue.name not in self._declared:
            producer.maybe_declare(queue)
            self._declared.add(queue.name)


def _is_the_brokers(error: BaseException | None) -> bool:
    """Whether no message is to blame: the broker hangs, or takes no writes from anybody."""
    return _timed_out(error) or any(
        type(one).__name__ in _NO_WRITES or str(one).startswith("MISCONF") for one in _chain(error)
    )


def _timed_out(error: BaseException | None) -> bool:
    # Redis' client has a TimeoutError of its own.
    return any(
        isinstance(one, TimeoutError) or type(one).__name__ == "TimeoutError"
        for one in _chain(error)
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _windows(batch: Sequence[Outgoing], size: int = 1000) -> Iterable[Sequence[Outgoing]]:
    return (batch[start : start + size] for start in range(0, len(batch), size))
