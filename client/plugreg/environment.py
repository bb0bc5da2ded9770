"""What exactly is started when a component is run: program, arguments, environment, folder.

    declaration + PLUGIN_ROOT + PLUGIN_DATA + the host's environment
        launch_of   > Launch      reads the disk, changes nothing: `plan` shows the result as it is
        make_ready                creates PLUGIN_DATA and a folder below it, just before the start

The child's environment is built from nothing, in this order; what comes later wins:

    1. the host's variables of `BASE`, no secret among them, and those that the plugin names for passing on;
       all but plugreg's own where the plugin expects that (`env_policy`) and the user allows it (`inherit`)
    2. the plugin's own `env`, its values expanded
    3. values that the user stored for this plugin
    4. `DEFAULTS`, unless one of the above says otherwise
    5. `PLUGIN_ROOT` and `PLUGIN_DATA`

Every path is judged again here although it was judged at publish: a link inside the plugin may have been
swapped since.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plugreg.programs import COMES_WITH, bundled_program, find_program, resolved
from plugreg_schemas.errors import IntegrityError, InvalidInput, NotAllowed, NotAvailable
from plugreg_schemas.names import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from plugreg_schemas.runtimes import Command, McpHttp

ROOT_FORM: Final = "${PLUGIN_ROOT}"
DATA_FORM: Final = "${PLUGIN_DATA}"
_TOKENS = re.compile(r"\$\{PLUGIN_(ROOT|DATA)\}")

_PROXIES: Final = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_CERTIFICATES: Final = (
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
)
BASE: Final = frozenset(
    {"PATH", "HOME", "LANG", "TMPDIR", "TZ", "USER", "LOGNAME", "SHELL", "TERM", *_PROXIES, *_CERTIFICATES}
)
"""What a child gets of the host's environment, beside `LC_*`: enough to find files, language and network."""

WINDOWS_BASE: Final = frozenset(
    {"PATH", "PATHEXT", "SYSTEMROOT", "COMSPEC", "TEMP", "TMP", "LANG", "TZ", "HOME"}
    | {"USERPROFILE", "USERNAME", "APPDATA", "LOCALAPPDATA", "HOMEDRIVE", "HOMEPATH"}
    | {name.upper() for name in (*_PROXIES, *_CERTIFICATES)}
)
"""The same on Windows, where names are compared in capitals."""

OURS: Final = "PLUGREG_"
"""How the names of plugreg's own variables begin."""

DEFAULTS: Final = {"PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1"}
"""For servers in Python: UTF-8 whatever the locale, and no `__pycache__` among the plugin's signed files."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What would be started. `argv[0]` is an absolute path, `env` is complete, `command` is as declared."""

    name: str
    command: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    root: Path
    data: Path
    startup_timeout_s: float = 30


def expand(text: str, root: Path, data: Path) -> str:
    """Replace `${PLUGIN_ROOT}` and `${PLUGIN_DATA}`, and nothing else.

    One pass: a path that itself holds such a text is inserted as it is, never looked at again.

    >>> expand("${PLUGIN_ROOT}/a:$HOME:${plugin_root}", Path("/p"), Path("/d"))
    '/p/a:$HOME:${plugin_root}'
    """
    return _TOKENS.sub(lambda token: str(root if token[1] == "ROOT" else data), text)


def launch_of(  # noqa: PLR0913 - each is one fact of the start
    component_id: str,
    runtime: Command,
    root: Path,
    data: Path,
    host_env: Mapping[str, str],
    *,
    values: Mapping[str, str] | None = None,
    inherit: bool = False,
    find: Callable[[str, str], str] = find_program,
) -> Launch:
    """Return what starts the component `component_id` of the plugin in `root`; nothing on disk is changed.

    `values` are what the user stored for the plugin's variables; `inherit` says that the user lets a plugin
    which expects the whole environment have it.

    Raises:
        NotAvailable: `launcher_missing`; `server_unavailable`: its working directory is not there.
        IntegrityError: `command_escape`, `cwd_escape`: a path, or a link on it, leads out of the plugin.
        InvalidInput: `command_missing`, `command_not_executable`, `shebang_cr`, `cwd_invalid`.
    """
    root, data = root.resolve(), Path(os.path.abspath(data))  # noqa: PTH100 - `.data` may well be a link: keep its name

    def known(text: str) -> str:
        return expand(text, root, data) if runtime.expand else text

    whole = inherit and runtime.env_policy == "inherit"
    env = overlaid(
        _inherited(host_env) if whole else base_environment(host_env, runtime.env_passthrough),
        {name: known(value) for name, value in runtime.env.items()} | dict(values or {}),
    )
    for name, value in DEFAULTS.items():
        env.setdefault(name, value)
    command = runtime.argv[0]
    if command.startswith("./"):
        program = bundled_program(command, root)
    else:
        # The plugin's own PATH does not choose the program: what is started must not depend on what is to be
        # judged.
        program = find(command, host_env.get("PATH", os.defpath))
    return Launch(
        name=component_id,
        command=command,
        argv=(program, *map(known, runtime.argv[1:])),
        env=env | {"PLUGIN_ROOT": str(root), "PLUGIN_DATA": str(data)},
        cwd=_working_directory(component_id, runtime, root, data),
        root=root,
        data=data,
        startup_timeout_s=getattr(runtime, "startup_timeout_s", 30),
    )


def base_environment(
    host_env: Mapping[str, str], passthrough: tuple[str, ...] = (), platform: str = sys.platform
) -> dict[str, str]:
    """Return what a child may see of the host's environment; a `passthrough` that is not set is left out."""
    if platform == "win32":
        wanted = WINDOWS_BASE | {name.upper() for name in passthrough}
        return {name: value for name, value in host_env.items() if name.upper() in wanted}
    wanted = BASE | set(passthrough)
    return {name: value for name, value in host_env.items() if name in wanted or name.startswith("LC_")}


def _inherited(host_env: Mapping[str, str]) -> dict[str, str]:
    """Return the host's environment without what is meant for plugreg: a key's passphrase may be there."""
    return {name: value for name, value in host_env.items() if not name.upper().startswith(OURS)}


def overlaid(
    env: Mapping[str, str], extra: Mapping[str, str], platform: str = sys.platform
) -> dict[str, str]:
    """Return `env` with `extra` over it, by the platform's rule: Windows does not tell `Path` from `PATH`."""
    if platform == "win32":
        new = {name.upper() for name in extra}
        env = {name: value for name, value in env.items() if name.upper() not in new}
    return {**env, **extra}


def _working_directory(component_id: str, runtime: Command, root: Path, data: Path) -> Path:
    """Return the folder to start in, resolved; below PLUGIN_DATA it need not exist yet."""
    text = runtime.cwd
    if runtime.cwd_base == "host_cwd":
        return (Path.cwd() / (text or "")).resolve()
    in_data = runtime.cwd_base == "plugin_data"
    if text is not None and runtime.expand:
        in_data = _is_form_of(DATA_FORM, text)
        if not (in_data or _is_form_of(ROOT_FORM, text) or text.startswith("./")):
            raise InvalidInput(
                "cwd_invalid",
                f"the `cwd` of {quoted(component_id)} is not one of the forms that are allowed",
                hint=f"write `./folder`, `{ROOT_FORM}/folder` or `{DATA_FORM}/folder`",
            )
        text = expand(text, root, data)
    fence = data if in_data else root
    where = resolved(fence / (text or ""))
    if not where.is_relative_to(resolved(fence)):
        raise IntegrityError(
            "cwd_escape",
            f"the `cwd` of {quoted(component_id)} leads out of the {'data folder' if in_data else 'plugin'}",
            hint="a working directory must lie inside the plugin or its data folder, links included",
        )
    if not where.is_dir() and (not in_data or where.exists()):
        raise NotAvailable(
            "server_unavailable",
            f"the working directory `{where}` of {quoted(component_id)} is not a folder",
            hint="correct `cwd` in the plugin, or install the plugin again",
        )
    return where


def _is_form_of(anchor: str, text: str) -> bool:
    return text == anchor or text.startswith(f"{anchor}/")


def make_ready(launch: Launch) -> None:
    """Create PLUGIN_DATA (0700) and a working directory below it, and see that the child can write there.

    Raises:
        NotAllowed: `data_not_writable`, naming the folder and the user.
    """
    try:
        launch.data.parent.mkdir(parents=True, exist_ok=True)
        launch.data.mkdir(mode=0o700, exist_ok=True)
        launch.cwd.mkdir(mode=0o700, parents=True, exist_ok=True)
        writable = os.access(launch.data, os.W_OK | os.X_OK)
        reason = "its owner or mode forbids it"
    except OSError as error:
        writable, reason = False, error.strerror or str(error)
    if not writable:
        user = f"uid {os.getuid()}" if hasattr(os, "getuid") else "this user"
        raise NotAllowed(
            "data_not_writable",
            f"the data folder `{launch.data}` cannot be written by {user}: {reason}",
            hint="give the folder to the user who runs the plugin, for example with `chown`",
        )


def remote_of(component_id: str, runtime: McpHttp) -> dict[str, object]:
    """Return the server as `plan` shows it; a header that carries a secret of the host is not among them."""
    kind = "sse" if runtime.transport == "sse" else "streamable-http"
    return {"name": component_id, "type": kind, "url": runtime.url, "headers": dict(runtime.headers)}


def launcher_state(names: Iterable[str], env: Mapping[str, str]) -> list[dict[str, str | None]]:
    """Return for each of these bare commands where it is on this machine, and what it comes with."""
    search = env.get("PATH", os.defpath)
    return [
        {"launcher": name, "found": shutil.which(name, path=search), "comes_with": COMES_WITH.get(name)}
        for name in names
    ]
