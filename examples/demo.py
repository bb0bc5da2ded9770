"""The whole way of a plugin on this machine, in a temporary folder: run it with `make demo`.

registry > key > publish 1.0.0 > install > plan > call > publish 1.1.0 > update > the data is still there
                                                            > an altered copy of the registry is refused
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = Path(__file__).parent / "notebook"
PROGRAMS = Path(sysconfig.get_path("scripts"))
START_TIMEOUT_S = 60
ALTERED = 4
"""The exit code that says: forged or altered, do not use it."""


def main() -> None:
    """Go the whole way; any step that fails ends it with an error."""
    with tempfile.TemporaryDirectory(prefix="plugreg-demo-") as folder:
        work = Path(folder)
        environ = environment(work)
        with registry(work / "registry", environ) as url:
            go(work, url, environ)
    print("\nDone. Nothing is left behind: the demo ran in a temporary folder.")


def environment(work: Path) -> dict[str, str]:
    """Return the environment of somebody whose files all lie in `work`."""
    environ = os.environ | {
        "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
        "PLUGREG_HOME": str(work / "home"),
        "PLUGREG_ROOT": str(work / "plugins"),
        "NO_COLOR": "1",
    }
    environ.pop("PLUGREG_REGISTRY", None)
    return environ


def go(work: Path, url: str, environ: dict[str, str]) -> None:
    """The demo itself, once a registry runs."""
    plugin = work / "notebook"
    shutil.copytree(EXAMPLE, plugin)

    title("An author makes a key, checks the plugin and publishes it, signed")
    plugreg(environ, "key", "new")
    plugreg(environ, "registry", "add", url, "--name", "demo")
    plugreg(environ, "check", str(plugin), "--publish")
    plugreg(environ, "publish", str(plugin))

    title("A user installs it; every signature is verified again on this side")
    plugreg(environ, "info", "notebook")
    plugreg(environ, "install", "notebook")
    plugreg(environ, "list")

    title("What would be started, exactly (the environment is shortened here)")
    show_plan(environ)

    title("Start the server, list its tools, call one, stop it")
    plugreg(environ, "tools", "notebook", "notes")
    call(environ, "add_note", {"text": "buy milk"})

    title("The author publishes 1.1.0, the user updates")
    manifest = json.loads((plugin / "plugin.json").read_text("utf-8"))
    (plugin / "plugin.json").write_text(
        json.dumps(manifest | {"version": "1.1.0"}, indent=2), encoding="utf-8"
    )
    plugreg(environ, "publish", str(plugin))
    plugreg(environ, "update")

    title("The new version runs, and PLUGIN_DATA kept its contents")
    call(environ, "add_note", {"text": "call mum"})
    notes = call(environ, "list_notes", {})
    data = work / "plugins" / ".data" / "notebook" / "notes.jsonl"
    print(f"  {data.relative_to(work)}: {data.read_text('utf-8').splitlines()}")
    if "buy milk" not in notes or "call mum" not in notes:
        sys.exit("error: the update lost the plugin's data")
    plugreg(environ, "verify")

    title("Somebody who holds a copy of the registry changes one word in it: the signed index shows it")
    mirror = altered_copy(environ, work / "mirror")
    plugreg(environ, "info", "notebook", "--registry", mirror.as_uri(), expected=ALTERED)


def altered_copy(environ: dict[str, str], mirror: Path) -> Path:
    """Mirror what the registry offers, and change a word in each plugin document of the mirror."""
    plugreg(environ, "mirror", str(mirror))
    for document in (mirror / "index" / "plugins").iterdir():
        document.write_bytes(document.read_bytes().replace(b"Keeps", b"Sells"))
    return mirror


def title(text: str) -> None:
    """Print what comes next."""
    print(f"\n== {text}", flush=True)


def plugreg(environ: dict[str, str], *words: str, expected: int = 0) -> str:
    """Run a command as a person would, show it, and return what it printed; it must end as `expected`."""
    shown = " ".join(json.dumps(word) if " " in word or "{" in word else word for word in words)
    print(f"$ plugreg {shown}", flush=True)
    done = subprocess.run(
        [PROGRAMS / "plugreg", *words], env=environ, text=True, capture_output=True, check=False
    )
    for line in (done.stdout + done.stderr).splitlines():
        print(f"  {line}")
    if expected:
        print(f"  (exit code {done.returncode})")
    if done.returncode != expected:
        sys.exit(f"error: the command ended with exit code {done.returncode}")
    return done.stdout


def show_plan(environ: dict[str, str]) -> None:
    """Print the plan of the plugin as JSON, with only the variables that plugreg sets itself."""
    print("$ plugreg plan notebook --json", flush=True)
    done = subprocess.run(
        [PROGRAMS / "plugreg", "plan", "notebook", "--json"],
        env=environ,
        text=True,
        capture_output=True,
        check=True,
    )
    plan: dict[str, Any] = json.loads(done.stdout)
    for server in plan["plugins"][0]["servers"]:
        server["env"] = {
            name: value for name, value in server["env"].items() if name.startswith(("PLUGIN_", "NOTEBOOK_"))
        }
    for line in json.dumps(plan["plugins"][0]["servers"], indent=2).splitlines():
        print(f"  {line}")


def call(environ: dict[str, str], tool: str, arguments: dict[str, str]) -> str:
    """Call one tool of the example's server and return its answer."""
    return plugreg(environ, "call", "notebook", "notes", tool, json.dumps(arguments))


@contextmanager
def registry(folder: Path, environ: dict[str, str]) -> Iterator[str]:
    """Run a registry on a free port of this machine; it is one command and needs no configuration."""
    title("An operator starts a registry: one command in an empty folder")
    folder.mkdir()
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [PROGRAMS / "plugreg-registry", "serve", "--data", str(folder / "data"), "--port", "0"],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
        )
    try:
        url = wait_for(process, log)
        print(f"$ plugreg-registry serve\n  ready at {url}", flush=True)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=START_TIMEOUT_S)


def wait_for(process: subprocess.Popen[str], log: Path) -> str:
    """Read the registry's address from what it prints, then wait until it is ready."""
    if process.stdout is None:
        raise AssertionError("the registry's output is not captured")
    url = ""
    for line in process.stdout:
        url = next((word for word in line.split() if word.startswith("http://")), "")
        if url:
            break
    limit = time.monotonic() + START_TIMEOUT_S
    while url and process.poll() is None and time.monotonic() < limit:
        try:
            with urllib.request.urlopen(f"{url.rstrip('/')}/readyz", timeout=5):  # noqa: S310 - the address is our own registry's
                return url
        except OSError:
            time.sleep(0.05)
    sys.exit(f"error: the registry did not start\n{log.read_text('utf-8')}")


if __name__ == "__main__":
    main()
