"""Schedules in the browser, for FastAPI, Starlette, Flask, or alone.

Pages are made on the server with Jinja2 and Starlette, over the same `Schedules` that programs use:
what is refused there is refused here, with the message at its field. Nothing needs a script but the
preview while typing. Each write is a POST with the token of its session, in the name of who is
logged in, so the audit tells who it was.

    site.py      a request: who asks, may they, what did they send
    reading.py · editing.py · ordering.py      the pages, each a function from that to an answer
    forms.py     a form's texts, read to a definition
    users.py · session.py      who may log in; who is
"""

try:
    import itsdangerous as _itsdangerous  # noqa: F401 - whether they are there
    import jinja2 as _jinja2  # noqa: F401
    import starlette as _starlette  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"{error.name} is missing; the pages need: pip install 'celery-dbbeat[web]'"
    ) from error

from celery_dbbeat.contrib.web.app import create_app
from celery_dbbeat.contrib.web.users import AuthProvider, Passwords, User, hash_password

__all__ = ["AuthProvider", "Passwords", "User", "create_app", "hash_password"]
