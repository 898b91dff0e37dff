"""`with` and `async with` for classes that have `close`."""

from __future__ import annotations

import asyncio

from typing_extensions import Self


class Closing:
    """Base class of everything that is closed after use: `close`, `aclose` for event loops, `with`, `async with`."""

    def close(self) -> None:
        """Release files, threads and connections."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Run `close` in a thread, so that the event loop is not blocked."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
