"""The version of the installed distribution."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed_version() -> str:
    """Return the version of plugreg, `unknown` where it runs from a source folder that is not installed."""
    try:
        return version("plugreg")
    except PackageNotFoundError:
        return "unknown"
