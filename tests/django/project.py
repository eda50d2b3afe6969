"""A small Django project with this package in it: settings, addresses and a Celery app."""

import os
from urllib.parse import parse_qsl, urlsplit

from celery import Celery

# Without the variable something else says where the database is.
_url = urlsplit(os.environ.get("SHOP_DATABASE", "postgresql://nowhere/nothing"))

SECRET_KEY = "only-for-tests"  # noqa: S105 - a test's
DEBUG = False
ALLOWED_HOSTS = ["*"]
USE_TZ = True
TIME_ZONE = "UTC"
ROOT_URLCONF = "tests.django.addresses"
STATIC_URL = "/static/"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _url.path.lstrip("/"),
        "USER": _url.username or "",
        "PASSWORD": _url.password or "",
        "HOST": _url.hostname or dict(parse_qsl(_url.query)).get("host", ""),
        "PORT": str(_url.port or dict(parse_qsl(_url.query)).get("port", "")),
    }
}
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "celery_dbbeat.contrib.django",
]
MIDDLEWARE = [
    "tests.django.policy.ContentSecurityPolicy",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DBBEAT_APP = "tests.django.project:app"

app = Celery("shop", broker="memory://", set_as_current=False)


@app.task(name="shop.add", shared=False)  # type: ignore[untyped-decorator]
def add(x: int, y: int = 1) -> None: ...
