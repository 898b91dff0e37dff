"""`with` and `async with` for everything that is closed after use."""

from __future__ import annotations

import asyncio

from typing_extensions import Self


class Closing:
    """`with` and `async with` for a class that has `close`; `aclose` is `close` for an event loop."""

    def close(self) -> None:
        """Release what it holds."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """`close` in a thread."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
