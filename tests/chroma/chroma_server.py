"""A real Chroma server, `chroma run`, on loopback."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import uuid4

import chromadb
from chromadb.config import Settings

START_SECONDS = 60.0
CHROMA = Path(sys.executable).with_name("chroma")


class ChromaServer:
    """A server process with its own folder; `stop` ends it, `start` begins it again on the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self._client: Any = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            [str(CHROMA), "run", "--path", str(self.folder), "--host", "127.0.0.1", "--port", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                self.client().heartbeat()
                return
            except Exception:
                if time.monotonic() > end or self._process.poll() is not None:
                    self.stop()
                    raise
                time.sleep(0.1)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def hang(self) -> None:
        """Let the server accept calls and answer none, until `answer`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def answer(self) -> None:
        """Let the server answer again, also the calls that wait."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def client(self) -> Any:
        """The client that all tests share: each client has a socket, which only `close` closes."""
        if self._client is None:
            settings = Settings(anonymized_telemetry=False)
            self._client = chromadb.HttpClient("127.0.0.1", self.port, settings=settings)
        return self._client

    def close(self) -> None:
        """Stop the server and close the client."""
        self.stop()
        if self._client is not None:
            self._client.close()
            self._client = None

    def collection(self) -> Any:
        """A new collection."""
        return self.client().create_collection(f"c-{uuid4().hex}")

    def __enter__(self) -> ChromaServer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
