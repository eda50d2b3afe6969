"""`celery -A app dbbeat …`, run as people run it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]

APP = """\
import os
from celery import Celery

app = Celery("shop", broker="memory://")
app.conf.dbbeat_url = os.environ.get("SHOP_URL")
app.conf.dbbeat_lease_ttl = os.environ.get("SHOP_LEASE_TTL", 10)
"""


@pytest.fixture
def celery(tmp_path: Path) -> Run:
    """Runs one command of a small app; keywords are its environment."""
    (tmp_path / "shop.py").write_text(APP)
    ours = {name: value for name, value in os.environ.items() if not name.startswith("DBBEAT_")}

    def run(*arguments: str, **environment: str) -> Done:
        return subprocess.run(
            [sys.executable, "-m", "celery", "-A", "shop", "dbbeat", *arguments],
            cwd=tmp_path,
            env={**ours, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run
