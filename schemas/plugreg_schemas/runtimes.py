"""The five ways in which a component can be run, as one union discriminated by `runtime`.

A declaration says what the author wrote, unexpanded; whether a host can use it is decided in `resolve`, and
how it is started in the client's `launch`. A sixth runtime is one more model here, one more launcher there.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

CwdBase = Literal["host_cwd", "plugin_root", "plugin_data"]
EnvPolicy = Literal["inherit", "client_choice", "whitelist"]


class Declaration(BaseModel):
    """What all declarations share. `language` is that of the plugin's code, None where nothing says it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    language: str | None = None


class InProcess(Declaration):
    """A class or module loaded into the host's own process."""

    runtime: Literal["in_process"] = "in_process"
    entry_point: str


class Command(Declaration):
    """What the runtimes that start a child process share.

    `argv` is unexpanded: element 0 is the executable. `expand` tells whether `${PLUGIN_ROOT}` and
    `${PLUGIN_DATA}` are replaced in the arguments, the values of `env` and `cwd`. `platforms` is not declared
    but found: where the native program behind a `./` command runs; empty: anywhere.
    """

    argv: tuple[str, ...]
    cwd: str | None = None
    cwd_base: CwdBase = "plugin_root"
    env: dict[str, str] = Field(default_factory=dict)
    env_passthrough: tuple[str, ...] = ()
    env_policy: EnvPolicy = "client_choice"
    expand: bool = False
    platforms: tuple[str, ...] = ()

    @property
    def own(self) -> str | None:
        """The path inside the plugin of the program that it brings, or None where it brings none."""
        command = self.argv[0] if self.argv else ""
        return command.removeprefix("./") if command.startswith("./") else None

    @property
    def launcher(self) -> str | None:
        """The bare command that must be found on the machine, or None where the plugin brings its own."""
        return self.argv[0] if self.argv and not self.argv[0].startswith("./") else None


class McpStdio(Command):
    """A child process that speaks MCP over its standard streams."""

    runtime: Literal["mcp_stdio"] = "mcp_stdio"
    startup_timeout_s: int = 30


class McpHttp(Declaration):
    """An MCP server that is already running somewhere, reached by URL."""

    runtime: Literal["mcp_http"] = "mcp_http"
    transport: Literal["streamable-http", "sse"] = "streamable-http"
    url: str
    headers: dict[str, str] = Field(default_factory=dict)
    auth_header: str | None = None
    auth_secret_env: str | None = None
    tls_verify: bool = True
    tls_ca_bundle: str | None = None
    request_timeout_s: int = 60


class Sidecar(Command):
    """A child process that speaks Keel's five methods over its standard streams."""

    runtime: Literal["sidecar"] = "sidecar"


class Webview(Declaration):
    """A user interface served to the host's web view.

    `backend` is the component id of its sidecar, if it has one.
    """

    runtime: Literal["webview"] = "webview"
    ui_root: str = "ui"
    ui_entry: str = "index.html"
    backend: str | None = None


Runtime = Annotated[InProcess | McpStdio | McpHttp | Sidecar | Webview, Field(discriminator="runtime")]
RuntimeName = Literal["in_process", "mcp_stdio", "mcp_http", "sidecar", "webview"]
