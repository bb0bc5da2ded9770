"""What would be started: expansion, environment, command and working directory, judged on the disk as it is."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from plugreg import environment
from plugreg.environment import (
    base_environment,
    expand,
    launch_of,
    launcher_state,
    make_ready,
    overlaid,
    remote_of,
)
from plugreg.programs import as_declared
from plugreg_schemas.errors import IntegrityError, InvalidInput, NotAllowed, NotAvailable
from plugreg_schemas.manifest import Component, Manifest
from plugreg_schemas.runtimes import McpHttp, McpStdio, Sidecar

HOST = {"PATH": os.environ["PATH"], "HOME": "/home/u", "LANG": "C.UTF-8"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "bin").mkdir(parents=True)
    (folder / "sub").mkdir()
    script(folder / "bin" / "server", "#!/bin/sh\n")
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def script(path: Path, text: str, mode: int = 0o755) -> None:
    path.write_bytes(text.encode())
    path.chmod(mode)


def stdio(*argv: str, cwd: str | None = None, **env: str) -> McpStdio:
    return McpStdio(argv=argv or ("sh",), cwd=cwd, env=env, expand=True)


class TestExpansion:
    def test_c25_every_occurrence_of_the_two_tokens_and_nothing_else(self, root: Path, data: Path) -> None:
        args = (
            "${PLUGIN_ROOT}/a:${PLUGIN_ROOT}",
            "${HOME}",
            "../x",
            "$PATH",
            "${PLUGIN_ROOT:-x}",
            "${plugin_root}",
        )
        launch = launch_of("s", stdio("sh", *args), root, data, HOST)
        assert launch.argv[1:] == (f"{root}/a:{root}", *args[1:])

    def test_c26_inserted_text_is_not_looked_at_again(self, root: Path, tmp_path: Path) -> None:
        data = tmp_path / "${PLUGIN_ROOT}" / "data"
        launch = launch_of("s", stdio("sh", "${PLUGIN_DATA}", D="${PLUGIN_DATA}"), root, data, HOST)
        assert launch.argv[1] == launch.env["D"] == str(data)
        assert expand("${PLUGIN_ROOT}", Path("/${PLUGIN_DATA}"), Path("/d")) == "/${PLUGIN_DATA}"

    def test_f3_keys_of_env_are_not_expanded(self, root: Path, data: Path) -> None:
        launch = launch_of("s", stdio(**{"${PLUGIN_ROOT}X": "${PLUGIN_DATA}"}), root, data, HOST)
        assert launch.env["${PLUGIN_ROOT}X"] == str(data)

    def test_a_format_without_expansion_keeps_the_text(self, root: Path, data: Path) -> None:
        runtime = McpStdio(argv=("sh", "${PLUGIN_ROOT}"), env={"A": "${PLUGIN_DATA}"})
        launch = launch_of("s", runtime, root, data, HOST)
        assert (launch.argv[1], launch.env["A"]) == ("${PLUGIN_ROOT}", "${PLUGIN_DATA}")


class TestEnvironment:
    SECRETS = (
        "AWS_SECRET_ACCESS_KEY",
        "PLUGREG_TOKEN",
        "OPENAI_API_KEY",
        "NODE_OPTIONS",
        "GITHUB_TOKEN",
        "LD_PRELOAD",
    )
    KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "LC_TIME", "TMPDIR", "TZ", "USER", "LOGNAME", "SHELL", "TERM")
    NETWORK = (
        "http_proxy",
        "HTTPS_PROXY",
        "no_proxy",
        "SSL_CERT_FILE",
        "REQUESTS_CA_BUNDLE",
        "NODE_EXTRA_CA_CERTS",
    )

    def test_h12_no_secret_of_the_host_is_passed_on(self) -> None:
        host = dict.fromkeys((*self.SECRETS, *self.KEPT, *self.NETWORK), "x")
        assert set(base_environment(host)) == {*self.KEPT, *self.NETWORK}

    def test_h12_on_windows_names_are_compared_in_capitals(self) -> None:
        host = {
            "Path": "C:\\bin",
            "SystemRoot": "C:\\Windows",
            "openai_api_key": "x",
            "ComSpec": "cmd",
            "windir": "w",
        }
        assert set(base_environment(host, platform="win32")) == {"Path", "SystemRoot", "ComSpec"}

    def test_on_windows_a_variable_has_one_spelling(self) -> None:
        assert overlaid({"Path": "a", "TZ": "b"}, {"PATH": "c"}, platform="win32") == {"TZ": "b", "PATH": "c"}
        assert overlaid({"Path": "a"}, {"PATH": "c"}, platform="linux") == {"Path": "a", "PATH": "c"}

    def test_declared_names_are_passed_on_and_missing_ones_left_out(self) -> None:
        assert base_environment({"A": "1", "B": "2"}, ("A", "C")) == {"A": "1"}

    def test_c34_env_overlays_the_base_and_the_two_variables_come_last(self, root: Path, data: Path) -> None:
        runtime = stdio(LANG="de_DE", PLUGIN_ROOT="forged", EXTRA="${PLUGIN_ROOT}/x")
        launch = launch_of(
            "s", runtime, root, data, HOST, values={"EXTRA": "stored", "PLUGIN_DATA": "forged"}
        )
        assert launch.env == {
            **HOST,
            "LANG": "de_DE",
            "EXTRA": "stored",
            "PYTHONUTF8": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PLUGIN_ROOT": str(root),
            "PLUGIN_DATA": str(data),
        }

    def test_c34_the_two_variables_are_absolute_and_the_root_is_resolved(
        self, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "link").symlink_to(root)
        monkeypatch.chdir(tmp_path)
        launch = launch_of("s", stdio(), Path("link"), Path("data"), HOST)
        assert launch.env["PLUGIN_ROOT"] == str(root)
        assert launch.env["PLUGIN_DATA"] == str(tmp_path / "data")

    @pytest.mark.parametrize("policy", ["inherit", "client_choice", "whitelist"])
    def test_every_policy_gets_the_whitelist(self, root: Path, data: Path, policy: str) -> None:
        runtime = Sidecar.model_validate({"argv": ("sh",), "env_policy": policy})
        assert (
            "OPENAI_API_KEY" not in launch_of("s", runtime, root, data, {**HOST, "OPENAI_API_KEY": "x"}).env
        )

    def test_h7_python_speaks_utf8_unless_the_plugin_says_otherwise(self, root: Path, data: Path) -> None:
        assert launch_of("s", stdio(), root, data, HOST).env["PYTHONUTF8"] == "1"
        assert launch_of("s", stdio(PYTHONUTF8="0"), root, data, HOST).env["PYTHONUTF8"] == "0"


class TestWorkingDirectory:
    @pytest.mark.parametrize(
        ("cwd", "expected"),
        [
            pytest.param(None, "root", id="C23-omitted"),
            pytest.param("./", "root", id="C23-dot"),
            pytest.param("./sub", "root/sub", id="F4-sub"),
            pytest.param("./gone/../sub", "root/sub", id="inside-again"),
            pytest.param("${PLUGIN_ROOT}", "root", id="root-token"),
            pytest.param("${PLUGIN_ROOT}/sub", "root/sub", id="root-form"),
            pytest.param("${PLUGIN_DATA}", "data", id="data-token"),
            pytest.param("${PLUGIN_DATA}/work", "data/work", id="C23-data-child"),
        ],
    )
    def test_c23_allowed_forms(self, root: Path, data: Path, cwd: str | None, expected: str) -> None:
        assert launch_of("s", stdio(cwd=cwd), root, data, HOST).cwd == root.parent / expected
        assert not data.exists(), "nothing is created before the start"

    @pytest.mark.parametrize("cwd", ["data", "/tmp", "${PLUGIN_ROOT}x", "", ".", "../x"])
    def test_c22_other_forms_are_refused(self, root: Path, data: Path, cwd: str) -> None:
        with pytest.raises(InvalidInput) as refusal:
            launch_of("s", stdio(cwd=cwd), root, data, HOST)
        assert refusal.value.code == "cwd_invalid"

    @pytest.mark.parametrize(
        "cwd", ["./../x", "${PLUGIN_DATA}/../x", "${PLUGIN_ROOT}/..", "./out", "./out/root/sub/../.."]
    )
    def test_c22_a_path_or_link_that_leads_out_is_refused(self, root: Path, data: Path, cwd: str) -> None:
        (root / "out").symlink_to("..")
        with pytest.raises(IntegrityError) as refusal:
            launch_of("s", stdio(cwd=cwd), root, data, HOST)
        assert refusal.value.code == "cwd_escape"

    def test_a_link_in_the_data_folder_that_leads_out_is_refused(self, root: Path, data: Path) -> None:
        data.mkdir()
        (data / "work").symlink_to(root)
        with pytest.raises(IntegrityError, match="data folder"):
            launch_of("s", stdio(cwd="${PLUGIN_DATA}/work"), root, data, HOST)

    @pytest.mark.parametrize("cwd", ["./gone", "./bin/server"])
    def test_a_missing_folder_of_the_plugin_is_an_error(self, root: Path, data: Path, cwd: str) -> None:
        with pytest.raises(NotAvailable) as refusal:
            launch_of("s", stdio(cwd=cwd), root, data, HOST)
        assert refusal.value.code == "server_unavailable"

    def test_other_bases(
        self, root: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        in_host = McpStdio(argv=("sh",), cwd="root", cwd_base="host_cwd")
        in_data = McpStdio(argv=("sh",), cwd="w", cwd_base="plugin_data")
        assert launch_of("s", in_host, root, data, HOST).cwd == root
        assert launch_of("s", in_data, root, data, HOST).cwd == data / "w"


class TestCommand:
    def test_f6_a_bundled_command_is_its_exact_path(self, tmp_path: Path, data: Path) -> None:
        root = tmp_path / "My Plugins (x86)&$HOME'\""
        root.mkdir()
        script(root / "server", "#!/bin/sh\n")
        assert launch_of("s", stdio("./server"), root, data, HOST).argv == (f"{root}/server",)

    def test_a_bare_command_is_found_on_the_hosts_path_only(self, root: Path, data: Path) -> None:
        script(root / "bin" / "npx", "#!/bin/sh\n")
        host = {"PATH": str(root / "bin")}
        assert launch_of("s", stdio("npx", PATH="/elsewhere"), root, data, host).argv[0] == f"{root}/bin/npx"
        with pytest.raises(NotAvailable):
            launch_of("s", stdio("npx", PATH=str(root / "bin")), root, data, {"PATH": "/nowhere"})

    def test_a_link_on_the_path_stays_a_link(self, root: Path, data: Path) -> None:
        (root / "bin" / "python3").symlink_to(sys.executable)
        launch = launch_of("s", stdio("python3"), root, data, {"PATH": str(root / "bin")})
        assert launch.argv[0] == f"{root}/bin/python3"

    @pytest.mark.parametrize(
        ("command", "comes_with"), [("npx", "Node.js"), ("uvx", "uv"), ("docker", "Docker")]
    )
    def test_a_missing_launcher_says_what_to_install(
        self, root: Path, data: Path, command: str, comes_with: str
    ) -> None:
        with pytest.raises(NotAvailable) as refusal:
            launch_of("s", stdio(command), root, data, {"PATH": "/nowhere"})
        assert refusal.value.code == "launcher_missing"
        assert comes_with in refusal.value.hint

    def test_a_missing_launcher_can_be_shown_as_declared(self, root: Path, data: Path) -> None:
        launch = launch_of("s", stdio("npx", "-y"), root, data, {"PATH": "/nowhere"}, find=as_declared)
        assert launch.argv == ("npx", "-y")

    def test_f9_a_command_swapped_for_a_link_outside_is_refused(self, root: Path, data: Path) -> None:
        (root / "bin" / "server").unlink()
        (root / "bin" / "server").symlink_to("/bin/sh")
        with pytest.raises(IntegrityError) as refusal:
            launch_of("s", stdio("./bin/server"), root, data, HOST)
        assert refusal.value.code == "command_escape"

    def test_f9_a_folder_swapped_for_a_link_outside_is_refused(self, root: Path, data: Path) -> None:
        (root / "tools").symlink_to("/bin")
        with pytest.raises(IntegrityError):
            launch_of("s", stdio("./tools/sh"), root, data, HOST)

    def test_a_link_that_stays_inside_is_fine(self, root: Path, data: Path) -> None:
        (root / "start").symlink_to("bin/server")
        assert launch_of("s", stdio("./start"), root, data, HOST).argv[0] == f"{root}/start"

    @pytest.mark.parametrize(
        ("text", "mode", "code"),
        [
            pytest.param(None, 0o755, "command_missing", id="missing"),
            pytest.param("#!/bin/sh\n", 0o644, "command_not_executable", id="C1-mode"),
            pytest.param("#!/bin/sh\r\n", 0o755, "shebang_cr", id="C3-line-end"),
        ],
    )
    def test_a_bundled_command_must_be_able_to_start(
        self, root: Path, data: Path, text: str | None, mode: int, code: str
    ) -> None:
        if text is not None:
            script(root / "run", text, mode)
        with pytest.raises(InvalidInput) as refusal:
            launch_of("s", stdio("./run"), root, data, HOST)
        assert refusal.value.code == code

    def test_links_in_a_circle_are_nothing(self, root: Path, data: Path) -> None:
        (root / "loop").symlink_to("loop")
        with pytest.raises(InvalidInput, match="command_missing"):
            launch_of("s", stdio("./loop"), root, data, HOST)
        with pytest.raises(NotAvailable, match="server_unavailable"):
            launch_of("s", stdio(cwd="./loop"), root, data, HOST)

    def test_a_folder_is_no_command(self, root: Path, data: Path) -> None:
        with pytest.raises(InvalidInput, match="command_missing"):
            launch_of("s", stdio("./bin"), root, data, HOST)


class TestReadiness:
    def test_the_data_folder_is_made_private_and_the_working_directory_below_it(
        self, root: Path, data: Path
    ) -> None:
        launch = launch_of("s", stdio(cwd="${PLUGIN_DATA}/a/b"), root, data, HOST)
        make_ready(launch)
        make_ready(launch)
        assert data.stat().st_mode & 0o777 == 0o700
        assert launch.cwd.is_dir()

    def test_b9_a_data_folder_that_cannot_be_made_is_named(self, root: Path, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        launch = launch_of("s", stdio(), root, tmp_path / "file" / "data", HOST)
        with pytest.raises(NotAllowed, match=f"{tmp_path}/file/data"):
            make_ready(launch)

    def test_b9_a_data_folder_of_another_user_is_refused_before_the_start(self) -> None:
        """The message names the folder and the uid."""
        code = (
            "import os, sys; from pathlib import Path\n"
            "from plugreg.environment import launch_of, make_ready; from plugreg_schemas.errors import NotAllowed\n"
            "from plugreg_schemas.runtimes import McpStdio\n"
            "if os.getuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
            "here = Path(sys.argv[1])\n"
            "try: make_ready(launch_of('s', McpStdio(argv=('sh',)), here, here / 'data', os.environ))\n"
            "except NotAllowed as error: print(error.code, error.message, os.getuid())\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o755)
            (Path(folder) / "data").mkdir()
            (Path(folder) / "data").chmod(0o500)
            done = subprocess.run(
                [sys.executable, "-c", code, folder], capture_output=True, text=True, check=True
            )
            uid = done.stdout.split()[-1]
        assert done.stdout.startswith(f"data_not_writable the data folder `{folder}/data`")
        assert f"uid {uid}" in done.stdout


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(environment).failed == 0


def test_a_remote_server_is_shown_without_the_secrets_of_the_host() -> None:
    runtime = McpHttp(url="https://h/mcp", headers={"X-A": "1"}, auth_header="X-Key", auth_secret_env="KEY")
    assert remote_of("r", runtime) == {
        "name": "r",
        "type": "streamable-http",
        "url": "https://h/mcp",
        "headers": {"X-A": "1"},
    }


def test_launchers_are_found_or_missing_and_say_what_they_come_with(root: Path) -> None:
    script(root / "bin" / "uvx", "#!/bin/sh\n")
    components = tuple(Component(name, (stdio(name),)) for name in ("npx", "uvx", "own-tool", "./bin/server"))
    manifest = Manifest(format="agent-plugins", name="demo", components=components)
    assert launcher_state(manifest.launchers, {"PATH": str(root / "bin")}) == [
        {"launcher": "npx", "found": None, "comes_with": "Node.js"},
        {"launcher": "own-tool", "found": None, "comes_with": None},
        {"launcher": "uvx", "found": f"{root}/bin/uvx", "comes_with": "uv"},
    ]


@pytest.mark.parametrize(
    ("policy", "allowed", "passed"),
    [
        ("inherit", True, True),
        ("inherit", False, False),
        ("client_choice", True, False),
        ("whitelist", True, False),
    ],
)
def test_the_whole_environment_is_passed_on_only_where_plugin_and_user_say_so(
    tmp_path: Path, policy: str, allowed: bool, passed: bool
) -> None:
    """5.4 row 3; plugreg's own variables never are."""
    host = {"PATH": os.environ["PATH"], "TOKEN": "s3cret", "PLUGREG_KEY_PASSPHRASE": "s3cret"}
    runtime = McpStdio.model_validate({"argv": ("python3",), "env": {"MINE": "1"}, "env_policy": policy})
    launch = launch_of("s", runtime, tmp_path, tmp_path / "data", host, inherit=allowed)
    assert ("TOKEN" in launch.env) is passed
    assert "PLUGREG_KEY_PASSPHRASE" not in launch.env
    assert (launch.env["MINE"], launch.env["PLUGIN_ROOT"]) == ("1", str(tmp_path))
