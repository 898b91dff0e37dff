"""From a tenant to the name of its directory, and back."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from umi_common.errors import InputError

PREFIX = "t-"
"""Of every tenant's directory: without it, a tenant "con" or "nul" would get a name that Windows reserves."""
PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
"""Bytes that stand for themselves in a directory's name; every other byte is written "=" and two hexadecimal digits.
No upper case, because some file systems take "A" and "a" for the same name."""
CHARACTERS_MAX = 200
"""Of a directory's name; file systems allow 255 bytes."""


def directory_name(tenant: str) -> str:
    """A tenant's directory: lower-case ASCII, one for each string.

    Raises:
        InputError: If the tenant cannot have one.
    """
    if not isinstance(tenant, str) or not tenant:
        raise InputError(f"tenant is {tenant!r:.80}; expected a non-empty string")
    try:
        data = tenant.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"tenant {tenant!r:.80} holds half of a surrogate pair; expected valid Unicode") from error
    name = PREFIX + "".join(chr(byte) if byte in PLAIN else f"={byte:02x}" for byte in data)
    if len(name) > CHARACTERS_MAX:
        raise InputError(
            f"tenant {tenant!r:.40}... needs a directory name of {len(name)} characters; expected at most "
            f"{CHARACTERS_MAX}: use a shorter id, for one a hash of this"
        )
    return name


def tenant_of(name: str) -> str | None:
    """The tenant of a directory; None: it is no tenant's."""
    if not name.startswith(PREFIX):
        return None
    try:
        tenant = unquote_to_bytes(name.removeprefix(PREFIX).replace("=", "%")).decode()
        return tenant if directory_name(tenant) == name else None
    except (UnicodeDecodeError, InputError):
        return None
