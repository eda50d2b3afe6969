"""Who may log in, and who may write."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from celery_dbbeat.errors import SettingsError

_COST, _BLOCK, _PARALLEL = 1 << 14, 8, 1
_MOST_COST = 1 << 20
_LINE = "NAME:ROLE:HASH with a role of reader or editor, the hash from `dbbeat web-password`"


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who may look; an editor may write, too. `name` is what the audit shows."""

    name: str
    editor: bool = False


class AuthProvider(Protocol):
    """Where users come from, when not from a list: a table, a directory."""

    def login(self, name: str, password: str) -> User | None:
        """The user, if that is the password."""

    def find(self, name: str) -> User | None:
        """The user with that name, as long as there is one: asked at each request."""


class Passwords:
    """An AuthProvider of a few users whose password hashes are known."""

    def __init__(self, users: Mapping[str, str], editors: Collection[str] = ()) -> None:
        for name, stored in users.items():
            _Hash.read(name, stored)
        unknown = sorted(set(editors) - set(users))
        if unknown or isinstance(editors, str):
            raise SettingsError(f"editors is {editors!r}; allowed are names of users")
        self._users = dict(users)
        self._editors = frozenset(editors)
        self._nobody = hash_password(secrets.token_hex())

    @classmethod
    def of_lines(cls, lines: Iterable[str]) -> Passwords:
        """Users as a file holds them: NAME:ROLE:HASH, a line each; # begins a comment."""
        users, editors = {}, set()
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            name, _, rest = line.strip().partition(":")
            role, _, stored = rest.partition(":")
            if not name or name in users or role not in {"reader", "editor"}:
                raise SettingsError(f"line {number} of the users is wrong; allowed is {_LINE}")
            users[name] = stored
            if role == "editor":
                editors.add(name)
        if not users:
            raise SettingsError(f"there are no users; allowed is a line each, {_LINE}")
        return cls(users, editors)

    def login(self, name: str, password: str) -> User | None:
        """The user, if that is the password; a name that nobody has takes as long."""
        stored = self._users.get(name)
        fits = _Hash.read(name, stored or self._nobody).fits(password)
        return self.find(name) if fits and stored is not None else None

    def find(self, name: str) -> User | None:
        """The user with that name."""
        return User(name, name in self._editors) if name in self._users else None


def hash_password(password: str) -> str:
    """What to store of a password: scrypt, with a salt of its own, without `$` and `:`."""
    salt = secrets.token_bytes(16)
    digest = _scrypt(password, salt, _COST, _BLOCK, _PARALLEL)
    numbers = f"{_COST}.{_BLOCK}.{_PARALLEL}"
    return f"scrypt.{numbers}.{_encoded(salt)}.{_encoded(digest)}"


@dataclass(frozen=True, slots=True)
class _Hash:
    cost: int
    block: int
    parallel: int
    salt: bytes
    digest: bytes

    @classmethod
    def read(cls, name: str, stored: str) -> _Hash:
        try:
            kind, cost, block, parallel, salt, digest = stored.split(".")
            found = cls(int(cost), int(block), int(parallel), _decoded(salt), _decoded(digest))
        except (ValueError, AttributeError):
            kind, found = "", None
        if kind != "scrypt" or found is None or not found.is_sound():
            # Not shown: it may be the password itself.
            raise SettingsError(
                f"the password of {name!r} is not a hash; allowed is what "
                "`celery -A app dbbeat web-password` or hash_password() returns"
            )
        return found

    def is_sound(self) -> bool:
        powers = self.cost > 1 and self.cost & (self.cost - 1) == 0
        small = self.cost * self.block <= _MOST_COST and 1 <= self.parallel <= _BLOCK
        return powers and small and self.block > 0 and len(self.salt) > 0 and len(self.digest) > 0

    def fits(self, password: str) -> bool:
        digest = _scrypt(password, self.salt, self.cost, self.block, self.parallel)
        return hmac.compare_digest(digest, self.digest)


def _scrypt(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    memory = 256 * cost * block
    return hashlib.scrypt(
        password.encode(), salt=salt, n=cost, r=block, p=parallel, dklen=32, maxmem=memory
    )


def _encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
