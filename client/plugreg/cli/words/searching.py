"""Words for looking around: search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugreg.cli.parsing import command, offline_options, registry_option

if TYPE_CHECKING:
    from plugreg.cli.parsing import Commands


def add_searching(commands: Commands) -> None:
    """Add search."""
    search = command(
        commands,
        "searching.search search",
        "find plugins in all known registries",
        "plugreg search pdf forms --host cursor",
    )
    search.add_argument(
        "words",
        metavar="WORD",
        nargs="*",
        help="words, or their beginnings; all must be met (default: list all)",
    )
    for facet, metavar, text in (
        ("runtime", "R", "only with this runtime: mcp_stdio, mcp_http, in_process, sidecar, webview"),
        ("language", "L", "only what a host in this language can use: python, typescript, go, ..."),
        ("host", "H", "only what this host can use: cursor, claude-code, chatgpt, ..."),
        ("tool", "T", "only with a tool of this name"),
        ("skill", "S", "only with a skill of this name"),
    ):
        search.add_argument(f"--{facet}", metavar=metavar, default="", help=text)
    search.add_argument(
        "--sort",
        choices=["relevance", "name", "updated"],
        default="relevance",
        help="the best first (default), by name, or the newest first",
    )
    search.add_argument(
        "--limit", metavar="N", type=int, default=20, help="plugins of one registry at most (default: 20)"
    )
    search.add_argument(
        "--signed",
        action="store_true",
        help="search the signed list of plugins, verified here, and keep it for `--offline`",
    )
    registry_option(search)
    offline_options(search)
