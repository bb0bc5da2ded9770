"""Words about registries: registry add, list, remove."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugreg.cli.parsing import ca_option, command, group

if TYPE_CHECKING:
    from plugreg.cli.parsing import Commands


def add_registry(commands: Commands) -> None:
    """Add registry add, list and remove."""
    registries = group(commands, "registry", "add, list and remove registries")
    add = command(
        registries,
        "registry.add add",
        "add a registry",
        "plugreg registry add https://plugins.example.com --name team",
    )
    add.add_argument("url", metavar="URL", help="the registry's address, or `file://` and a folder")
    add.add_argument("--name", default="", metavar="N", help="what to call it (default: its host)")
    add.add_argument(
        "--root-digest",
        metavar="D",
        default="",
        help="the digest of its root, as its operator says (default: the root that it offers is pinned)",
    )
    add.add_argument(
        "--token-file",
        metavar="FILE|-",
        default="",
        help="the file of the token by which it is read, or the standard input; it is kept for this registry",
    )
    add.add_argument("--insecure-http", action="store_true", help="allow plain http to another machine")
    ca_option(add)
    command(
        registries, "registry.list_known list", "list the registries that were added", "plugreg registry list"
    )
    remove = command(
        registries, "registry.remove remove", "forget a registry", "plugreg registry remove team"
    )
    remove.add_argument("name", metavar="NAME|URL", help="the registry")
