"""Words for machines without a network: export, import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugreg.cli.parsing import command, registry_option

if TYPE_CHECKING:
    from plugreg.cli.parsing import Commands


def add_carrying(commands: Commands) -> None:
    """Add export and import."""
    export = command(
        commands,
        "carrying.export export",
        "put what a registry offers into one file, for machines without a network",
        "plugreg export team.plugreg --registry team",
    )
    export.add_argument("file", metavar="FILE", help="the file; one that is there is replaced")
    export.add_argument(
        "refs",
        metavar="NAME[@RANGE]",
        nargs="*",
        help="plugins, with what they depend on (default: all, in all versions)",
    )
    export.add_argument("--latest", action="store_true", help="only the newest version in each range")
    registry_option(export)

    bring_in = command(
        commands,
        "carrying.bring_in import",
        "verify an export, and use it as a registry",
        "plugreg import team.plugreg",
    )
    bring_in.add_argument("file", metavar="FILE", help="what `plugreg export` has made")
    bring_in.add_argument(
        "folder",
        metavar="DIR",
        nargs="?",
        default="",
        help="the folder for it; it is empty, or has an import or mirror of the same registry "
        "(default: below PLUGREG_HOME)",
    )
    bring_in.add_argument("--name", default="", metavar="N", help="what to call it (default: its folder)")
    bring_in.add_argument(
        "--root-digest",
        metavar="D",
        default="",
        help="the digest of the registry's root, as its operator says (default: the root that is there "
        "is pinned)",
    )
