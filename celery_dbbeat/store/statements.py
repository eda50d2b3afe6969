"""Named SQL statements from the `.sql` files of this folder.

A file holds blocks that begin with `-- name: …`. Table names stand unqualified in the files, so
that a statement can be pasted into psql; where the tables live in a schema of their own, its name
is put before them here. That needs no `search_path`, which a pooler would not keep.
"""

import re
from functools import lru_cache
from pathlib import Path

_BLOCK = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
# Tables, views and functions: nothing else in a statement has a name that begins so.
_OURS = re.compile(r"\bdbbeat_[a-z_]+\b")


@lru_cache(maxsize=8)
def load(schema: str | None) -> dict[str, str]:
    """All statements by name."""
    statements: dict[str, str] = {}
    for file in sorted(Path(__file__).parent.glob("*.sql")):
        parts = _BLOCK.split(file.read_text())[1:]
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            if name in statements:
                raise LookupError(f"the statement {name} is defined twice")
            statements[name] = _qualify(text.strip(), schema)
    return statements


def _qualify(text: str, schema: str | None) -> str:
    return _OURS.sub(rf'"{schema}".\g<0>', text) if schema else text
