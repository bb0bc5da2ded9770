"""The command line: fixed words, exit codes, one JSON value, and never a traceback."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from plugreg.cli import EXIT_CODES, EXIT_INTERNAL, exit_code, main
from plugreg.cli.parser import build_parser
from plugreg.scaffold import init
from plugreg_schemas import errors
from plugreg_schemas.api import Problem
from plugreg_schemas.errors import PlugregError
from plugreg_schemas.key_uris import PASSPHRASE
from tests.support.goldens import check_golden, run, transcript
from tests.support.record import OTHER_REGISTRY
from tests.support.scripted import Answer, serving
from tests.support.small_registry import SmallRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator

    Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder with a home of its own."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PLUGREG_") and name != "PLUGREG_GOLDENS"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PLUGREG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PLUGREG_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def commands(
    parser: argparse.ArgumentParser, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Yield the words and the parser of every command and group."""
    yield words, parser
    for action in parser._actions:  # noqa: SLF001 - argparse has no public way to list its commands
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for name, sub in action.choices.items():
                yield from commands(sub, (*words, name))


PARSERS = dict(commands(build_parser()))
COMMANDS = list(PARSERS)


# --- what it costs to start ------------------------------------------------------------------------------------------


def test_version_imports_nothing_that_costs() -> None:
    code = (
        "import sys\n"
        "from plugreg.cli import main\n"
        "try:\n"
        "    main(['--version'])\n"
        "except SystemExit as ended:\n"
        "    assert ended.code == 0\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    version, modules = done.stdout.splitlines()
    assert version.startswith("plugreg ")
    costly = {
        "boto3",
        "cryptography",
        "fastapi",
        "mcp",
        "pydantic",
        "rich",
        "sigstore",
        "sqlalchemy",
        "tuf",
        "urllib3",
        "yaml",
    }
    assert set(modules.split()) & costly == set()


@pytest.mark.parametrize(
    "words", [("check", "demo"), ("key", "new"), ("registry", "list"), ("list",)], ids=" ".join
)
def test_commands_import_only_what_they_need(words: tuple[str, ...]) -> None:
    init(Path("demo"))
    code = (
        f"import sys\nfrom plugreg.cli import main\nmain({words!r})\nprint(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert (
        set(done.stderr.splitlines()[-1].split()) & {"boto3", "fastapi", "mcp", "rich", "sigstore", "tuf"}
        == set()
    )


# --- exit codes ------------------------------------------------------------------------------------------------------

DOCUMENTED = {
    "UsageError": 2,
    "InvalidInput": 3,
    "TooLarge": 3,
    "IntegrityError": 4,
    "ResolutionError": 5,
    "NotAllowed": 6,
    "Unauthenticated": 6,
    "Conflict": 6,
    "NotAvailable": 7,
    "Gone": 7,
    "Unverifiable": 7,
    "Temporary": 8,
    "NoSpace": 8,
    "TooMany": 8,
    "PlugregError": EXIT_INTERNAL,
}


def test_every_class_of_error_has_its_exit_code() -> None:
    kinds = {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, PlugregError)
    }
    assert {name: exit_code(kind("x", "x")) for name, kind in kinds.items()} == DOCUMENTED
    assert len({code for _, code in EXIT_CODES}) == len(EXIT_CODES)


# --- help ------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="argparse of another Python lays its help out differently"
)
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(("plugreg", *words)))
def test_help(capsys: Capture, words: tuple[str, ...]) -> None:
    code, out, err = run(capsys, *words, "--help")
    assert (code, err) == (0, "")
    name = "-".join(("plugreg", *words))
    check_golden(f"help/{name}", out)


def test_every_help_golden_is_of_a_command() -> None:
    from tests.support.goldens import FOLDER

    kept = {path.stem for path in (FOLDER / "help").glob("*.txt")}
    assert kept == {"-".join(("plugreg", *words)) for words in COMMANDS}


LEAVES = [words for words in COMMANDS if words not in {(), ("key",), ("owner",), ("registry",)}]


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_every_command_has_an_example_that_parses_and_speaks_json(
    capsys: Capture, words: tuple[str, ...]
) -> None:
    import shlex

    _, out, _ = run(capsys, *words, "--help")
    assert "--json" in out
    example = out.rsplit("example:\n", 1)[1].strip()
    typed = shlex.split(example)
    assert typed[: len(words) + 1] == ["plugreg", *words]
    build_parser().parse_args(typed[1:])


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_every_command_has_a_handler(words: tuple[str, ...]) -> None:
    """The parser names handlers in words; every one of them must be there."""
    import importlib

    module, _, handler = PARSERS[words].get_default("run").args[0].partition(".")
    assert callable(getattr(importlib.import_module(f"plugreg.cli.{module}"), handler))


# --- words of errors -------------------------------------------------------------------------------------------------


def keys(*names: str) -> None:
    for name in names:
        assert main(["key", "new", name]) == 0


def two_keys() -> None:
    init(Path("demo"))
    keys("ada", "bob")


def one_key() -> None:
    init(Path("demo"))
    keys("ada")


def secrets() -> None:
    init(Path("demo"))
    Path("demo/.env").write_text("x")


def no_version() -> None:
    init(Path("demo"))
    manifest = json.loads(Path("demo/plugin.json").read_bytes())
    del manifest["version"]
    Path("demo/plugin.json").write_text(json.dumps(manifest))


def broken_settings() -> None:
    Path("plugreg.toml").write_text("rooot = 'x'")


def broken_registries() -> None:
    Path("home").mkdir()
    Path("home/registries.json").write_text("{")


def encrypted_key() -> None:
    init(Path("demo"))
    os.environ[PASSPHRASE] = "x"
    try:
        assert main(["key", "new", "--passphrase"]) == 0
    finally:
        del os.environ[PASSPHRASE]


def foreign_key() -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP384R1())
    plain = serialization.NoEncryption()
    Path("other.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )
    init(Path("demo"))


def plugin() -> None:
    init(Path("demo"))


def nothing() -> None:
    """Begin with an empty folder."""


ERRORS = {
    "check-nothing-there": (nothing, ("check", "nowhere"), 7),
    "check-bad-version": (one_key, ("check", "demo", "--publish", "--version", "v1"), 3),
    "init-not-empty": (one_key, ("init", "demo"), 6),
    "init-bad-name": (nothing, ("init", "My Plugin"), 3),
    "pack-no-version": (no_version, ("pack", "demo"), 3),
    "publish-no-key": (plugin, ("publish", "demo"), 2),
    "publish-two-keys": (two_keys, ("publish", "demo"), 2),
    "publish-no-registry": (one_key, ("publish", "demo"), 2),
    "publish-unknown-registry": (one_key, ("publish", "demo", "--registry", "team"), 7),
    "publish-open-http": (one_key, ("publish", "demo", "--registry", "http://plugins.example"), 2),
    "publish-unknown-key": (one_key, ("publish", "demo", "--key", "bob"), 7),
    "publish-foreign-key": (foreign_key, ("publish", "demo", "--key", "other.pem"), 3),
    "publish-encrypted-key": (encrypted_key, ("publish", "demo"), 2),
    "publish-secrets": (secrets, ("publish", "demo"), 3),
    "publish-no-version": (no_version, ("publish", "demo"), 3),
    "publish-a-file": (plugin, ("publish", "demo/plugin.json"), 2),
    "publish-broken-settings": (broken_settings, ("publish", "demo"), 2),
    "key-exists": (one_key, ("key", "new", "ada"), 6),
    "key-bad-name": (nothing, ("key", "new", "../ada"), 2),
    "key-show-none": (nothing, ("key", "show"), 2),
    "key-show-two": (two_keys, ("key", "show"), 2),
    "key-show-unknown": (one_key, ("key", "show", "bob"), 7),
    "key-passphrase-without-terminal": (nothing, ("key", "new", "--passphrase"), 7),
    "yank-no-version": (one_key, ("yank", "demo", "--reason", "x"), 2),
    "yank-range": (one_key, ("yank", "demo@^1", "--reason", "x"), 2),
    "owner-nobody": (one_key, ("owner", "add", "demo"), 2),
    "owner-bad-id": (one_key, ("owner", "add", "demo", "ada"), 3),
    "registry-bad-url": (nothing, ("registry", "add", "plugins.example"), 2),
    "registry-password": (nothing, ("registry", "add", "https://ada:secret@plugins.example"), 2),
    "registry-remove-unknown": (nothing, ("registry", "remove", "team"), 7),
    "registry-list-broken": (broken_registries, ("registry", "list"), 3),
    "info-no-registry": (nothing, ("info", "demo"), 2),
    "info-bad-range": (nothing, ("info", "demo@>>1"), 3),
    "usage-no-command": (nothing, (), 2),
    "usage-missing": (nothing, ("check",), 2),
    "usage-unknown-option": (nothing, ("check", "demo", "--publsh"), 2),
    "usage-abbreviation": (nothing, ("check", "demo", "--pub"), 2),
}


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_words_of_errors(capsys: Capture, here: Path, name: str) -> None:
    make, words, expected = ERRORS[name]
    make()
    code, out, err = run(capsys, *words)
    assert code == expected
    assert out == "" or words[0] == "check", "only `check` prints its result when it says no"
    assert err.startswith("error: ")
    check_golden(f"errors/{name}", transcript(words, code, out, err), replace={str(here): "/here"})


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_a_failure_with_json_is_one_problem_on_stdout(capsys: Capture, name: str) -> None:
    make, words, expected = ERRORS[name]
    make()
    code, out, err = run(capsys, *words, "--json")
    value = json.loads(out)
    if list(value) != ["error"]:
        assert name.startswith("check-"), "only `check` prints its result when it says no"
    else:
        problem = Problem.model_validate(value["error"])
        assert problem.detail
        assert problem.code
        assert 400 <= problem.status < 600
    assert (code, err) == (expected, "")


def test_two_keys_are_named(capsys: Capture) -> None:
    two_keys()
    code, _, err = run(capsys, "publish", "demo")
    assert code == 2
    assert "ada, bob" in err


# --- wrong arguments -------------------------------------------------------------------------------------------------

ODD = [
    "",
    " ",
    "-",
    "--",
    "..",
    "/",
    "\udcff",
    "\n",
    "a" * 5000,
    "~nobody-of-this-name/x",
    "@",
    "x@",
    "@1",
    "\u202e",
    "{}",
    "%s",
]


def _odd_command_lines() -> list[tuple[str, ...]]:
    reads = [
        ("check",),
        ("pack",),
        ("publish",),
        ("key", "new"),
        ("key", "show"),
        ("unyank",),
        ("owner", "list"),
        ("owner", "add", "demo"),
        ("owner", "add", "demo", "--public-key"),
        ("registry", "add"),
        ("registry", "remove"),
        ("info",),
        ("info", "demo", "--registry"),
        ("publish", "demo", "--key"),
        ("publish", "demo", "--version"),
        ("check", "demo", "--version"),
        ("pack", "demo", "-o"),
        ("list", "--root"),
        ("verify",),
        ("install",),
        ("update",),
        ("uninstall",),
        ("plan",),
        ("tools",),
        ("call", "demo", "a", "b"),
    ]
    return [(*words, odd) for words in reads for odd in ODD]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(("plugreg", *words)))
def test_odd_arguments_are_refused_in_our_own_words(capsys: Capture, words: tuple[str, ...]) -> None:
    init(Path("demo"))
    keys("ada")
    for line in _odd_command_lines():
        if line[: len(words)] != words or not words:
            continue
        for more in ((), ("--json",)):
            code, out, err = run(capsys, *more, *line) if not words else run(capsys, *line, *more)
            assert code in {0, 2, 3, 4, 5, 6, 7, 8}, (line, out, err)
            assert "Traceback" not in out + err, line
            assert "internal_error" not in out + err, line


@pytest.mark.parametrize(
    "words", [("--version",), ("--help",), ("check", "--help"), ("key", "list")], ids=" ".join
)
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_terminals_that_know_few_characters(words: tuple[str, ...], encoding: str) -> None:
    env = os.environ | {"PYTHONIOENCODING": encoding, "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-m", "plugreg", *words], capture_output=True, env=env, check=False, timeout=60
    )
    assert (done.returncode, done.stderr.count(b"Traceback")) == (0, 0)


def test_a_reader_that_goes_away_is_no_fault() -> None:
    init(Path("demo"))
    code = "import sys; from plugreg.cli import main; sys.exit(main(['check', 'demo', '--json']))"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        assert "Traceback" not in child.stderr.read()
        assert child.wait(60) == 0


def test_a_fault_of_our_own_is_said_so(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    from plugreg.cli import authoring

    def broken(*_: object) -> int:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(authoring, "key_list", broken)
    code, out, err = run(capsys, "key", "list")
    assert (code, out) == (EXIT_INTERNAL, "")
    assert "ZeroDivisionError" in err
    assert "secret" not in err
    monkeypatch.setenv("PLUGREG_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main(["key", "list"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_files_that_may_not_be_read(capsys: Capture) -> None:
    keys("ada")
    Path("home/keys/ada.pem").chmod(0)
    code, _, err = run(capsys, "key", "show")
    assert (code, err.startswith("error: ")) == (7, True)


def test_a_full_disk(capsys: Capture) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    code = "import sys; from plugreg.cli import main; sys.exit(main(['key', 'list', '--json']))"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, check=False, timeout=60
        )
    assert (done.returncode, done.stderr) == (8, b"error: there is no space left on the disk for a file\n")


# --- registries and keys, from the words on --------------------------------------------------------------------------


def test_a_registry_is_added_listed_and_removed(capsys: Capture) -> None:
    with serving(SmallRegistry()) as server:
        code, out, _ = run(capsys, "registry", "add", server.url, "--name", "team", "--json")
        added = json.loads(out)
        assert (code, added["name"], added["url"]) == (0, "team", server.url)
        assert json.loads(run(capsys, "registry", "list", "--json")[1]) == {"registries": [added]}
        assert run(capsys, "registry", "add", server.url, "--name", "crew")[0] == 0
        assert [
            entry["name"] for entry in json.loads(run(capsys, "registry", "list", "--json")[1])["registries"]
        ] == ["crew"]
        assert run(capsys, "registry", "remove", "crew")[0] == 0
        assert json.loads(run(capsys, "registry", "list", "--json")[1]) == {"registries": []}


def test_another_registry_at_a_known_address_is_not_added_quietly(capsys: Capture) -> None:
    registry = SmallRegistry()
    with serving(registry) as server:
        assert run(capsys, "registry", "add", server.url, "--name", "team")[0] == 0
        registry.id = OTHER_REGISTRY
        code, _, err = run(capsys, "registry", "add", server.url, "--name", "team")
        assert code in {4, 6}
        assert OTHER_REGISTRY in err
        assert "registry remove team" in err
        assert run(capsys, "info", "demo")[0] == 4


def test_a_name_of_another_registry_is_taken(capsys: Capture) -> None:
    with serving(SmallRegistry()) as one, serving(SmallRegistry(id=OTHER_REGISTRY)) as two:
        assert run(capsys, "registry", "add", one.url, "--name", "team")[0] == 0
        code, _, err = run(capsys, "registry", "add", two.url, "--name", "team")
        assert (code, "team" in err) == (6, True)


def test_a_web_page_is_no_registry(capsys: Capture) -> None:
    with serving(lambda _: Answer(200, b"<html>hello")) as server:
        code, _, err = run(capsys, "registry", "add", server.url)
    assert (code, "there is no plugreg registry" in err) == (7, True)


def test_from_the_key_to_the_owner_in_words(capsys: Capture, here: Path) -> None:
    """The author's whole way: key, publish, again, yank, unyank, owners, info; each with its JSON."""
    init(Path("demo"))
    keys("ada", "bob")
    with serving(SmallRegistry()) as server:
        assert run(capsys, "registry", "add", server.url, "--name", "team")[0] == 0

        def ask(*words: str) -> dict[str, object]:
            code, out, err = run(capsys, *words, "--json")
            assert (code, err) == (0, ""), err
            value: dict[str, object] = json.loads(out)
            return value

        bob = ask("key", "show", "bob")["id"]
        done = ask("publish", "demo", "--key", "ada")
        members = ["name", "version", "digest", "registry", "signer", "findings", "url", "already", "index"]
        assert list(done) == members
        assert ask("publish", "demo", "--key", "ada")["already"] is True
        assert ask("yank", "demo@0.1.0", "--reason", "loses data", "--key", "ada")["revision"] == 1
        shown = ask("info", "demo")
        assert (shown["yanked"], shown["reason"]) == (True, "loses data")
        assert "YANKED: loses data" in run(capsys, "info", "demo")[1]
        assert ask("unyank", "demo@0.1.0", "--key", "ada")["revision"] == 2
        assert (
            ask("owner", "add", "demo", "--public-key", "home/keys/bob.pub", "--key", "ada")["revision"] == 3
        )
        owners = ask("owner", "list", "demo")["owners"]
        assert isinstance(owners, list)
        assert bob in {owner["words"] for owner in owners}
        assert ask("owner", "remove", "demo", str(bob), "--key", "bob")["revision"] == 4
        code, _, err = run(capsys, "yank", "demo@0.1.0", "--reason", "x", "--key", "bob")
        assert (code, "not an owner" in err) == (6, True)


def test_dry_run_needs_neither_key_nor_registry(capsys: Capture) -> None:
    init(Path("demo"))
    code, out, _ = run(capsys, "publish", "demo", "--dry-run", "--json")
    assert (code, json.loads(out)["dry_run"]) == (0, True)


def test_key_list_says_what_it_knows_without_a_public_half(capsys: Capture) -> None:
    keys("ada", "bob")
    Path("home/keys/bob.pub").unlink()
    code, out, _ = run(capsys, "key", "list", "--json")
    assert code == 0
    assert [(row["name"], bool(row["id"])) for row in json.loads(out)["keys"]] == [
        ("ada", True),
        ("bob", False),
    ]


def test_folders_that_a_bundle_cannot_carry_are_named_before_publishing(capsys: Capture) -> None:
    init(Path("demo"))
    Path("demo/empty").mkdir()
    code, out, err = run(capsys, "publish", "demo", "--dry-run")
    assert (code, "not sent" in out, "empty" in err) == (0, True, True)
