"""A process that uses an embedded server until it is ended: `python -m tests.embedded.user URL`."""

import os
import sys
import time

from celery_dbbeat import embedded
from celery_dbbeat.errors import EmbeddedError

FAILED = 3


def main(url: str, *options: str) -> None:
    """Say the URL, or why there is none."""
    try:
        print("url", embedded.start(url), flush=True)
    except EmbeddedError as error:
        print("error", error, flush=True)
        sys.exit(FAILED)
    if "--leave-a-child" in options and os.fork():
        return
    print("using", flush=True)
    time.sleep(120)


if __name__ == "__main__":
    main(*sys.argv[1:])
