"""What a page may load, as a careful site tells browsers."""

import os
from collections.abc import Callable
from typing import Any


class ContentSecurityPolicy:
    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self._answer = answer

    def __call__(self, request: Any) -> Any:
        response = self._answer(request)
        if policy := os.environ.get("SHOP_POLICY"):
            response["Content-Security-Policy"] = policy
        return response
