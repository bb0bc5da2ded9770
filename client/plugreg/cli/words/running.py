"""Words that run plugins: plan, tools, call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugreg.cli.parsing import ca_option, command, environment_option, root_option

if TYPE_CHECKING:
    from plugreg.cli.parsing import Commands


def add_running(commands: Commands) -> None:
    """Add plan, tools and call."""
    plan = command(commands, "running.plan plan", "show exactly what would be started", "plugreg plan lint3r")
    plan.add_argument("target", metavar="NAME|PATH", help="an installed plugin, or a plugin's folder")
    ca_option(plan)
    root_option(plan)
    environment_option(plan)
    tools = command(
        commands,
        "running.tools tools",
        "start a plugin's servers and list their tools",
        "plugreg tools lint3r",
    )
    tools.add_argument("name", metavar="NAME", help="an installed plugin")
    tools.add_argument("server", metavar="SERVER", nargs="?", default=None, help="one server (default: all)")
    ca_option(tools)
    root_option(tools)
    environment_option(tools)
    call = command(
        commands,
        "running.call call",
        "call one tool",
        """plugreg call lint3r linter lint '{"path": "src"}'""",
    )
    call.add_argument("name", metavar="NAME", help="an installed plugin")
    call.add_argument("server", metavar="SERVER", help="one of its servers")
    call.add_argument("tool", metavar="TOOL", help="the tool")
    call.add_argument(
        "arguments",
        metavar="JSON",
        nargs="?",
        default="{}",
        help="the tool's arguments, `-` reads them from standard input",
    )
    ca_option(call)
    root_option(call)
    environment_option(call)
