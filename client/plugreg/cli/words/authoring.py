"""Words for authors: init, check, convert, pack, key, publish, yank, unyank, owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugreg.cli.parsing import command, group, registry_option, signing_options, yes_option

if TYPE_CHECKING:
    from plugreg.cli.parsing import Commands


def add_authoring(commands: Commands) -> None:
    """Add init, check, convert, pack and key."""
    init = command(commands, "authoring.init init", "start a new plugin", "plugreg init my-plugin")
    init.add_argument("dir", metavar="DIR", help="the new plugin's folder")
    init.add_argument(
        "--format",
        choices=["agent-plugins", "dagstack", "keel"],
        default="agent-plugins",
        help="the manifest format",
    )
    init.add_argument("--name", default="", help="the plugin's name (default: the folder's name)")

    check = command(
        commands, "authoring.check check", "validate a plugin as a registry does", "plugreg check my-plugin"
    )
    check.add_argument("path", metavar="PATH", help="a plugin's folder or a bundle")
    check.add_argument("--publish", action="store_true", help="fail unless a registry would take it")
    check.add_argument(
        "--version", default=None, metavar="V", help="the version, where the manifest has none"
    )
    check.add_argument(
        "--format",
        choices=["text", "github"],
        default="text",
        help="`github` prints annotations for GitHub Actions",
    )

    convert = command(
        commands,
        "authoring.convert convert",
        "make an Agent Plugins package of something similar",
        "plugreg convert my-claude-plugin -o my-plugin",
    )
    convert.add_argument(
        "dir",
        metavar="DIR",
        help="the folder of a Claude, Codex, Cursor, Gemini or MCPB plugin, a registry entry, "
        "a client's configuration",
    )
    convert.add_argument(
        "-o", "--output", metavar="OUT", default="", help="the new folder (default: DIR-agent-plugin)"
    )
    convert.add_argument(
        "--name", default="", help="the plugin's name (default: the stated one, or the folder's)"
    )

    pack = command(
        commands,
        "authoring.pack pack",
        "make the bundle of a plugin",
        "plugreg pack my-plugin -o my-plugin.tar.zst",
    )
    pack.add_argument("dir", metavar="DIR", help="the plugin's folder")
    pack.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        default="",
        help="where to write it (default: <name>-<version>.tar.zst here)",
    )
    pack.add_argument("--version", default=None, metavar="V", help="the version, where the manifest has none")

    keys = group(commands, "key", "make and show signing keys")
    new = command(keys, "authoring.key_new new", "make a signing key", "plugreg key new")
    new.add_argument(
        "name", metavar="NAME", nargs="?", default="default", help="a name for the key (default: default)"
    )
    new.add_argument(
        "--algorithm",
        choices=["ed25519", "ecdsa-p256"],
        default="ed25519",
        help="the kind of key (default: ed25519)",
    )
    new.add_argument(
        "--passphrase", action="store_true", help="ask for a passphrase (or take PLUGREG_KEY_PASSPHRASE)"
    )
    command(keys, "authoring.key_list list", "list the signing keys", "plugreg key list")
    show = command(
        keys, "authoring.key_show show", "show a key's identity and public half", "plugreg key show default"
    )
    show.add_argument(
        "name", metavar="NAME", nargs="?", default="", help="the key (default: the only one there is)"
    )


def add_publishing(commands: Commands) -> None:
    """Add publish, yank, unyank and owner."""
    publish = command(
        commands,
        "authoring.publish publish",
        "sign a plugin and publish it",
        "plugreg publish my-plugin --registry team",
    )
    publish.add_argument("path", metavar="PATH", help="the plugin's folder")
    registry_option(publish)
    signing_options(publish)
    publish.add_argument(
        "--version", default=None, metavar="V", help="the version, where the manifest has none"
    )
    publish.add_argument(
        "--accept-registry",
        metavar="ID",
        default="",
        help="publish to a registry whose id is not its address",
    )
    publish.add_argument("--dry-run", action="store_true", help="do everything but sign and send")
    publish.add_argument(
        "--allow-sensitive", action="store_true", help="publish files that look like secrets"
    )
    yes_option(publish)

    yank = command(
        commands,
        "authoring.yank yank",
        "withdraw a version",
        'plugreg yank my-plugin@1.2.0 --reason "loses data"',
    )
    yank.add_argument("ref", metavar="NAME@V", help="the plugin and the version")
    yank.add_argument("--reason", required=True, help="why, for those who have it installed")
    registry_option(yank)
    signing_options(yank)
    unyank = command(
        commands, "authoring.unyank unyank", "take a withdrawal back", "plugreg unyank my-plugin@1.2.0"
    )
    unyank.add_argument("ref", metavar="NAME@V", help="the plugin and the version")
    registry_option(unyank)
    signing_options(unyank)

    owners = group(commands, "owner", "show and change the owners of a name")
    listing = command(
        owners, "authoring.owner_list list", "list the owners of a plugin", "plugreg owner list my-plugin"
    )
    listing.add_argument("name", metavar="NAME", help="the plugin")
    registry_option(listing)
    for word, summary in (("add", "add an owner to a plugin"), ("remove", "remove an owner from a plugin")):
        change = command(
            owners,
            f"authoring.owner_{word} {word}",
            summary,
            f"plugreg owner {word} my-plugin --public-key colleague.pub",
        )
        change.add_argument("name", metavar="NAME", help="the plugin")
        change.add_argument(
            "id", metavar="ID", nargs="?", default="", help="the identity, as `plugreg key show` prints it"
        )
        change.add_argument(
            "--public-key", metavar="FILE", default="", help="take the identity from a public key file"
        )
        registry_option(change)
        signing_options(change)
