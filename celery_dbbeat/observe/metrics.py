"""What `/metrics` answers: the numbers, or what to install to have them."""

import logging
from http import HTTPStatus

from celery_dbbeat.observe.exposition import Read, exposition, installed
from celery_dbbeat.observe.server import Answer, Route

logger = logging.getLogger(__name__)

_MISSING = b"There are no metrics without: pip install 'celery-dbbeat[metrics]'\n"


def metrics_route(*reads: Read) -> Route:
    """The numbers of all these."""
    if not installed():
        logger.info("no metrics are shown: pip install 'celery-dbbeat[metrics]'")
        return lambda _: Answer(HTTPStatus.NOT_IMPLEMENTED, "text/plain; charset=utf-8", _MISSING)

    def answer(accept: str) -> Answer:
        content_type, body = exposition(accept, reads)
        return Answer(HTTPStatus.OK, content_type, body)

    return answer
