"""How many messages wait in a queue, by the broker's own count.

Asked by a passive declaration, which changes nothing, on a channel of its own: RabbitMQ closes the
channel on which somebody asks for a queue that does not exist.
"""

from typing import Any

from kombu import Connection
from kombu.transport.virtual import Channel as VirtualChannel

_NOT_FOUND = 404


def depth(connection: Connection, queue: str) -> int | None:
    """The number of messages that wait; None where that cannot be told. No queue, no message."""
    channel = connection.channel()
    try:
        if not _can_count(channel):
            return None
        return int(channel.queue_declare(queue=queue, passive=True).message_count)
    except connection.channel_errors as error:
        return _by_error(error)
    finally:
        _close(channel, connection)


def _can_count(channel: Any) -> bool:
    """Whether the transport counts: those of kombu that do not say 0 of every queue."""
    if not isinstance(channel, VirtualChannel):
        return True
    return type(channel)._size is not VirtualChannel._size  # noqa: SLF001 - there is no other sign of it


def _by_error(error: BaseException) -> int | None:
    code = getattr(error, "reply_code", None)
    if code is None:
        raise error
    return 0 if int(code) == _NOT_FOUND else None


def _close(channel: Any, connection: Connection) -> None:
    try:
        channel.close()
    except (*connection.connection_errors, *connection.channel_errors):
        return  # whatever is wrong with the connection shows at its next use
