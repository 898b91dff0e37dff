"""Asynchronous methods that call the synchronous ones in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


def in_thread(name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    """An asynchronous method that calls the synchronous method `name` in a thread."""

    async def method(self: Any, *args: Any, **options: Any) -> Any:
        return await asyncio.to_thread(getattr(self, name), *args, **options)

    method.__doc__ = f"`{name}` in a thread."
    return method
