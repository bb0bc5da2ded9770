"""Words for authors: init, check, convert, pack, key, publish, yank, unyank, deprecate, owner; moderate."""

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
        "name",
        metavar="NAME",
        nargs="?",
        default="",
        help="the key, as for --key (default: the only one there is)",
    )


def add_publishing(commands: Commands) -> None:
    """Add publish, yank, unyank, deprecate, owner and moderate."""
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
    publish.add_argument(
        "--provenance",
        metavar="FILE",
        default="",
        help="how it was built: a Sigstore bundle of SLSA provenance v1, by the CI that publishes",
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

    _deprecating(commands)
    _owning(commands)
    _moderating(commands)


def _deprecating(commands: Commands) -> None:
    deprecate = command(
        commands,
        "authoring.deprecate deprecate",
        "say that a plugin is not developed further",
        'plugreg deprecate my-plugin --replacement my-other --reason "merged into my-other"',
    )
    deprecate.add_argument("name", metavar="NAME", help="the plugin")
    deprecate.add_argument("--replacement", metavar="N", default="", help="the plugin to use instead")
    deprecate.add_argument("--reason", metavar="TEXT", default="", help="why, for those who use it")
    deprecate.add_argument("--undo", action="store_true", help="take it back")
    registry_option(deprecate)
    signing_options(deprecate)


def _moderating(commands: Commands) -> None:
    moderate = command(
        commands,
        "authoring.moderate moderate",
        "withdraw a plugin or give its name to others, as an administrator of the registry",
        'plugreg moderate my-plugin quarantine --reason "under examination"',
    )
    moderate.add_argument("name", metavar="NAME", help="the plugin")
    moderate.add_argument(
        "action",
        choices=["quarantine", "release", "remove", "reassign"],
        help="`quarantine`: nobody begins to use it; `remove`: its bundles are deleted; "
        "`release` ends both; `reassign`: `--to ID` owns it from now on, and nobody else",
    )
    moderate.add_argument("--to", metavar="ID", default="", help="the new owner, with `reassign`")
    moderate.add_argument("--reason", metavar="TEXT", required=True, help="why; everybody can read it")
    registry_option(moderate)
    signing_options(moderate)


def _owning(commands: Commands) -> None:
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
        if word == "add":
            change.add_argument(
                "--not-before", metavar="T", default="", help="a key: valid from this time on (RFC 3339)"
            )
            change.add_argument(
                "--not-after", metavar="T", default="", help="a key: valid until just before this time"
            )
            change.add_argument(
                "--refs", metavar="PATTERN", default="", help="a CI: only from these refs: `refs/tags/v*`"
            )
        registry_option(change)
        signing_options(change)
    resend = command(
        owners,
        "authoring.owner_resend resend",
        "give a registry back the statements that it lost and this machine has seen",
        "plugreg owner resend my-plugin",
    )
    resend.add_argument("name", metavar="NAME", help="the plugin")
    registry_option(resend)
