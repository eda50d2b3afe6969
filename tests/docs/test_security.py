"""What docs/security.md says of URLs is what reaches the driver."""

from urllib.parse import parse_qsl, urlsplit

from celery_dbbeat.settings import Settings
from celery_dbbeat.store.database import connect_arguments
from tests.docs.test_docs import ROOT, _blocks


def test_what_is_asked_of_tls_is_asked_of_the_driver() -> None:
    (block,) = _blocks(ROOT / "docs/security.md", "text")
    urls = block.split()
    assert len(urls) == 2
    for url in urls:
        arguments = connect_arguments(Settings.read({"dbbeat_url": url}, {}).url)
        asked = dict(parse_qsl(urlsplit(url).query))
        assert asked["sslmode"] == "verify-full"
        assert {name: arguments[name] for name in asked} == asked
