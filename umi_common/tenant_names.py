"""From a tenant to the name of its directory, and back."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from umi_common.errors import InputError

PREFIX = "t-"
"""Prefix of every tenant's directory: without it, a tenant "con" or "nul" would get a name that Windows reserves."""
PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
"""Bytes that are written unchanged in a directory's name; every other byte as "=" and two hexadecimal digits. Upper
case is not among them, because "A" and "a" are the same name on some file systems."""
CHARACTERS_MAX = 200
"""Longest name of a directory; file systems allow 255 bytes."""


def directory_name(tenant: str) -> str:
    """Name of a tenant's directory, in lower-case ASCII; different tenants have different names.

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
            f"{CHARACTERS_MAX}: use a shorter id, for example a hash of this one"
        )
    return name


def tenant_of(name: str) -> str | None:
    """The tenant whose directory has this name; None: it is not a name from `directory_name`."""
    if not name.startswith(PREFIX):
        return None
    try:
        tenant = unquote_to_bytes(name.removeprefix(PREFIX).replace("=", "%")).decode()
        return tenant if directory_name(tenant) == name else None
    except (UnicodeDecodeError, InputError):
        return None
