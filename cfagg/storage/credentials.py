"""Keys of object stores: those that the user gives, or else those that other tools also find in the environment.

They are looked up for each request, so that expiring keys are renewed, and are never sent to other processes; only a
provider is, by its name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, NoReturn

from cfagg.errors import AccessError

__all__ = ["Credentials", "Provider", "from_environment", "setting"]

#: Called for each request; returns new keys when the old ones expire.
Provider = Callable[[], Mapping[str, str]]

_NAMES = {
    "access_key_id": "aws_access_key_id",
    "secret_access_key": "aws_secret_access_key",
    "session_token": "aws_session_token",
}

_SETTINGS = {
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "endpoint_url": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
}


@dataclass(frozen=True)
class Credentials:
    """Keys of one account, given by the user for one store.  They are not pickled."""

    key: str
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    region: str = "us-east-1"

    def __reduce__(self) -> NoReturn:
        raise AccessError(
            "keys given as access_key_id= and secret_access_key= are not sent to other processes; give "
            "storage_options={'credentials': provider}, an importable function that returns them, or leave them out "
            "and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile, where the store is read"
        )


def from_environment() -> dict[str, str]:
    """Return the keys in the environment now: ``AWS_…``, then a profile, then those that botocore finds; or none."""
    found = {name: os.environ[own.upper()] for name, own in _NAMES.items() if os.environ.get(own.upper())}
    if "access_key_id" in found and "secret_access_key" in found:
        return found
    profile = _profile()
    found = {name: profile[own] for name, own in _NAMES.items() if profile.get(own)}
    if "access_key_id" in found and "secret_access_key" in found:
        return found
    return _by_botocore()


def setting(name: str) -> str | None:
    """Return the ``region`` or ``endpoint_url`` that the environment or a profile gives, or `None` if neither does."""
    ignored = os.environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true"
    if name == "endpoint_url" and ignored:
        return None
    found = next((os.environ[v] for v in _SETTINGS[name] if os.environ.get(v)), None)
    return found or _profile(needed=False).get(name) or None


def _profile(*, needed: bool = True) -> dict[str, str]:
    """Return the profile in use, merged from both files; if `needed`, one named by AWS_PROFILE has to exist."""
    named = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE")
    name = named or "default"
    shared = _sections(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials").get(name)
    config = _sections(os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config")
    settings = config.get(f"profile {name}", config.get(name) if name == "default" else None)
    if needed and named and shared is None and settings is None:
        raise AccessError(
            f"AWS_PROFILE={named} names a profile that is neither in the shared credentials file nor in the "
            "configuration file: correct the name, or pass storage_options="
        )
    return {**(settings or {}), **(shared or {})}


def _sections(name: str) -> dict[str, dict[str, str]]:
    # Asked for often: functions of `os.path` take a tenth of the time of methods of `Path`.
    path = os.path.expanduser(name)  # noqa: PTH111
    try:
        state = os.stat(path)  # noqa: PTH116
    except OSError:
        return {}
    return _parsed(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=4)
def _parsed(path: str, _modified: int, _size: int) -> dict[str, dict[str, str]]:
    import configparser

    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        # The parser's own message quotes the line, which may contain a key.
        raise AccessError(f"{path} is not a valid file of profiles: correct it, or pass storage_options=") from None
    return {section: dict(parser[section]) for section in parser.sections()}


#: The session of botocore in one process, which renews keys that expire.
_found: tuple[int, str, Any] | None = None


def _by_botocore() -> dict[str, str]:
    """Return keys for roles, single sign-on, containers and instances, which botocore obtains."""
    global _found  # noqa: PLW0603
    if find_spec("botocore") is None:
        return {}
    import botocore.exceptions
    import botocore.session

    place = (os.getpid(), os.environ.get("AWS_PROFILE", ""))
    try:
        if _found is None or _found[:2] != place:
            _found = (*place, botocore.session.get_session().get_credentials())
        if _found[2] is None:
            return {}
        keys = _found[2].get_frozen_credentials()
    except botocore.exceptions.BotoCoreError as error:
        raise AccessError(f"botocore cannot get credentials from the environment: {error}") from None
    found = {"access_key_id": keys.access_key, "secret_access_key": keys.secret_key, "session_token": keys.token or ""}
    return {name: value for name, value in found.items() if value}
