"""`plugreg check --json` for each format, good and bad: every member in its order, one line; the files are indented.

`PLUGREG_GOLDENS=write` writes the files anew; look at the difference before you keep it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from plugreg.cli import main
from plugreg.scaffold import init

GOLDENS = Path(__file__).parents[1] / "goldens" / "check-json"
SCHEMAS = "https://agent-plugins.org/schemas/1.0.0"
AGENT = {"$schema": f"{SCHEMAS}/plugin.schema.json", "name": "demo", "version": "1.0.0"}

AGENT_PLUGINS_BAD = {
    "plugin.json": json.dumps(
        AGENT | {"name": "Not A Name", "version": 2, "author": {"twitter": "x"}, "hooks": {}}
    ),
    "mcp.json": json.dumps(
        {
            "$schema": f"{SCHEMAS}/mcp.schema.json",
            "mcpServers": {
                "good": {"type": "stdio", "command": "python3"},
                "bad": {"type": "stdio", "command": "a b"},
            },
        }
    ),
    "skills/one/SKILL.md": "no front matter",
}
AGENT_PLUGINS_PART = {**AGENT_PLUGINS_BAD, "plugin.json": json.dumps(AGENT | {"hooks": {}})}
DAGSTACK_BAD = {
    "dagstack.toml": '[plugin]\nschema_version = "9.0.0"\nname = "echo"\nkind = "orchestrator"\n'
    'kind_api_version = "1"\ncore_version = "0.1"\nruntime = ["mcp_http", "mcp_stdio"]\ntryfirst = true\n'
    'trylast = true\npriority = -1\nfoo = 1\n[plugin.mcp_http]\nurl = "https://saas.example/"\n'
}
KEEL_BAD = {
    "plugin.yaml": 'id: acme.notes\nversion: "1.0.0"\nkind: sidecar\nentry: {command: "", shell: true}\n'
    "provides: {ui: {entry: ../x.html}}\ncolour: red\n"
}
CASES: dict[str, dict[str, str] | None] = {
    "agent-plugins-good": None,
    "agent-plugins-part": AGENT_PLUGINS_PART,
    "agent-plugins-bad": AGENT_PLUGINS_BAD,
    "dagstack-good": None,
    "dagstack-bad": DAGSTACK_BAD,
    "keel-good": None,
    "keel-bad": KEEL_BAD,
}
"""Without files the case is what `plugreg init` writes."""


@pytest.mark.parametrize("name", CASES)
def test_json_of_check(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLUGREG_HOME", str(tmp_path / "home"))
    files = CASES[name]
    if files is None:
        init(Path("demo"), "demo", name.removesuffix("-good"))  # type: ignore[arg-type]  # the formats' names
    for path, text in (files or {}).items():
        Path("demo", path).parent.mkdir(parents=True, exist_ok=True)
        Path("demo", path).write_text(text, encoding="utf-8")
    code = main(["check", "demo", "--json"])
    printed, complaint = capsys.readouterr()
    assert (code, complaint) == (3 if name.endswith("bad") else 0, "")
    assert printed.count("\n") == 1
    shown = json.dumps(json.loads(printed), indent=2, ensure_ascii=False) + "\n"
    golden = GOLDENS / f"{name}.json"
    if os.environ.get("PLUGREG_GOLDENS") == "write":
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(shown, encoding="utf-8")
    assert shown == golden.read_text("utf-8")


def test_every_golden_has_its_case() -> None:
    assert sorted(path.stem for path in GOLDENS.glob("*.json")) == sorted(CASES)
