"""tiktoken's encodings from files on this machine, and from nowhere else unless the caller says so.

tiktoken itself goes to the network, without a timeout, when a file is missing, and deletes cached files that it does
not like. Here files are only read: from tiktoken's own cache, then from the copies inside an installed
llama-index-core. Each is checked against the SHA-256 that tiktoken states.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import tempfile
import time
import types
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from umi_common.errors import ConfigError

if TYPE_CHECKING:
    import tiktoken

CACHE_VARIABLES = ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")
"""As tiktoken reads them; an empty value turns its cache off."""
BUNDLED = Path("_static") / "tiktoken_cache"
"""Where llama-index-core keeps its copies, inside its package."""
Read = Callable[[str, str | None], bytes]


class EncodingUnavailable(Exception):
    """No file for it on this machine."""


def encoding_name(spec: str) -> str:
    """The encoding that a model or encoding name means: "gpt-4o" -> "o200k_base".

    Raises:
        ConfigError: If tiktoken knows neither.
        ImportError: If tiktoken is not installed.
    """
    import tiktoken

    if spec in tiktoken.list_encoding_names():
        return spec
    try:
        return tiktoken.encoding_name_for_model(spec)
    except KeyError as error:
        raise ConfigError(
            f"token counter {spec!r}: tiktoken knows no such model or encoding; give the model's tokenizer, a function "
            "from text to a number of tokens, or an encoding name such as 'cl100k_base'"
        ) from error


def load_encoding(name: str, *, download_seconds: float | None = None) -> tiktoken.Encoding:
    """The encoding of that name.

    Args:
        name: As in `tiktoken.list_encoding_names()`.
        download_seconds: None: never touch the network. Else how long a download may take in all; the file goes to
            tiktoken's cache folder.

    Raises:
        EncodingUnavailable: If there is no sound file, or the download failed or took too long.
    """
    from tiktoken import registry

    known = registry.ENCODINGS.get(name)
    return known if known is not None else _built(name, _places(), download_seconds)


@lru_cache(maxsize=16)
def _built(name: str, places: tuple[Path, ...], download_seconds: float | None) -> tiktoken.Encoding:
    import tiktoken
    from tiktoken import registry

    def read(url: str, sha256: str | None = None) -> bytes:
        for place in places:
            content = _sound_file(place / cache_key(url), sha256)
            if content is not None:
                return content
        if download_seconds is None:
            raise EncodingUnavailable(f"no file of tiktoken's {name} in {[str(place) for place in places]}")
        return _downloaded(url, sha256, download_seconds)

    tiktoken.list_encoding_names()  # fills the constructors
    constructors = registry.ENCODING_CONSTRUCTORS
    if constructors is None or name not in constructors:
        raise EncodingUnavailable(f"tiktoken has no encoding {name}")
    return tiktoken.Encoding(**_reading_with(constructors[name], read)())


def cache_key(url: str) -> str:
    """The file name that tiktoken gives to what it read from `url`."""
    return hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()


def _places() -> tuple[Path, ...]:
    """Folders with encoding files, best first."""
    return tuple(place for place in (_own_cache(), *_bundled()) if place is not None)


def _own_cache() -> Path | None:
    for variable in CACHE_VARIABLES:
        if variable in os.environ:
            return Path(os.environ[variable]) if os.environ[variable] else None
    return Path(tempfile.gettempdir()) / "data-gym-cache"


def _bundled() -> Iterator[Path]:
    # The top package is a namespace: finding it imports nothing of LlamaIndex.
    spec = importlib.util.find_spec("llama_index")
    for root in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield Path(root) / "core" / BUNDLED


def _sound_file(path: Path, sha256: str | None) -> bytes | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return content if sha256 is None or hashlib.sha256(content).hexdigest() == sha256 else None


def _reading_with(constructor: Callable[[], dict[str, Any]], read: Read) -> Callable[[], dict[str, Any]]:
    """The constructor with tiktoken's file reading replaced by `read`, on copies: nothing global is patched."""
    from tiktoken import load

    if not callable(getattr(load, "read_file_cached", None)):
        raise EncodingUnavailable("this version of tiktoken reads its files in an unknown way")
    loaders = _copied_functions(vars(load), read_file_cached=read)
    loading = {name: loaders[name] for name in ("load_tiktoken_bpe", "data_gym_to_mergeable_bpe_ranks")}
    if not isinstance(constructor, types.FunctionType):
        raise EncodingUnavailable("this encoding is built in an unknown way")
    return _copied(constructor, _copied_functions(constructor.__globals__, **loading))


def _copied_functions(namespace: Mapping[str, Any], **replaced: Any) -> dict[str, Any]:
    """A module's namespace in which its functions call each other's copies, and `replaced` instead of theirs."""
    copies = dict(namespace)
    for name, value in namespace.items():
        if isinstance(value, types.FunctionType):
            copies[name] = _copied(value, copies)
    copies.update(replaced)
    return copies


def _copied(function: types.FunctionType, namespace: dict[str, Any]) -> types.FunctionType:
    copy = types.FunctionType(
        function.__code__, namespace, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _downloaded(url: str, sha256: str | None, seconds: float) -> bytes:
    import urllib.request  # brings http and ssl along

    deadline = time.monotonic() + seconds
    content = bytearray()
    try:
        with urllib.request.urlopen(url, timeout=seconds) as reply:
            while block := reply.read(1 << 16):
                content += block
                if time.monotonic() > deadline:
                    raise EncodingUnavailable(f"the download took longer than {seconds:g} s")
    except OSError as error:
        raise EncodingUnavailable(f"the download failed with {type(error).__name__}") from error
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise EncodingUnavailable("the download does not have the content that tiktoken states")
    _keep(url, bytes(content))
    return bytes(content)


def _keep(url: str, content: bytes) -> None:
    folder = _own_cache()
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(content)
        Path(file.name).replace(folder / cache_key(url))
    except OSError:
        return  # a cache that cannot be written costs the next process a download, no more
