"""YAML as files of schedules use it: imported only where it is, for PyYAML is an extra.

Text stays text: an instant is read with the schedule's time zone, 12:30 is not the number 750, and
`off` is a word. A name that is there twice is an error, not the last of the two.
"""

import re
from collections.abc import Callable
from typing import Any

import yaml

from celery_dbbeat.errors import ScheduleError

_GUESSED = {"timestamp", "int", "float", "bool"}
_NUMBER = r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$|[-+]?\.inf$|\.nan$"
_SCALARS = (
    ("bool", re.compile(r"(?:true|false)$"), "tf"),
    ("int", re.compile(r"[-+]?[0-9]+$"), "-+0123456789"),
    ("float", re.compile(_NUMBER), "-+.0123456789"),
)


class _Loader(yaml.SafeLoader):
    """Guesses as YAML 1.2 does."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as it is there
        first: [one for one in resolvers if one[0].rpartition(":")[2] not in _GUESSED]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    pairs_hook: Callable[[list[tuple[str, Any]]], dict[str, Any]]

    def construct_yaml_map(self, node: Any) -> Any:  # noqa: ANN401 - PyYAML has no types
        self.flatten_mapping(node)
        return self.pairs_hook(
            [
                (self.construct_object(key, deep=True), self.construct_object(value, deep=True))
                for key, value in node.value
            ]
        )


_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.construct_yaml_map)
for _tag, _pattern, _first in _SCALARS:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, _first)


def dump(value: object) -> str:
    """The text of a value."""
    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))


def load(text: str, pairs_hook: Callable[[list[tuple[str, Any]]], dict[str, Any]]) -> Any:  # noqa: ANN401 - whatever stands there
    """A value from its text; each object is made by the hook of its pairs."""
    loader = _Loader(text)
    loader.pairs_hook = pairs_hook
    try:
        return loader.get_single_data()
    except (yaml.YAMLError, ValueError, TypeError, AttributeError) as error:
        if isinstance(error, ScheduleError):
            raise
        raise ScheduleError(f"the file is not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ScheduleError("the file is not YAML: it is nested too deep") from None
    finally:
        loader.dispose()
