"""The deployment files, each judged by the tool of its kind. What needs a cloud, a cluster or a builder is not here."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import hcl2
import jsonschema  # type: ignore[import-untyped]
import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from plugreg_registry.settings import PREFIX, check_exposure, read_settings, unknown_settings
from tests.support.charts import rendered
from tests.support.nginx import INFRA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PROGRAMS: Final = Path(sys.executable).parent
CHART: Final = INFRA / "helm" / "plugreg"
TEMPLATES: Final = sorted((CHART / "templates").iterdir())
TERRAFORM: Final = sorted((INFRA / "terraform").glob("*.tf"))
KUBERNETES: Final = "1.29", "1.34"
"""The oldest that the chart names, and a newer one."""
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the wheels are installed on Linux only")


def run(*command: str | Path) -> str:
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# --- containers ---


@on_linux
def test_the_container_file_has_no_fault() -> None:
    assert run(PROGRAMS / "hadolint", INFRA / "Containerfile") == ""


def test_the_image_installs_only_what_is_locked_and_runs_as_nobody_special() -> None:
    text = (INFRA / "Containerfile").read_text()
    assert "--require-hashes" in text
    assert text.index("USER 10001:10001") < text.index("ENTRYPOINT")
    assert not re.search(r"(?i)(password|secret|token)=", text)


def test_nothing_but_the_wheel_and_the_lock_reaches_the_builder() -> None:
    lines = (INFRA.parent / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if not line.startswith("#")]
    assert rules == ["*", "!dist/plugreg-*.whl", "!requirements/runtime.txt"]


def test_the_compose_file_is_one() -> None:
    checked = ["--builtin-schema", "vendor.compose-spec", str(INFRA / "compose.yaml")]
    run(PROGRAMS / "check-jsonschema", *checked)


def composed() -> Mapping[str, Any]:
    found: dict[str, Any] = yaml.safe_load((INFRA / "compose.yaml").read_text())
    return found


@pytest.mark.parametrize("name", composed()["services"])
def test_every_service_has_the_least_rights_and_writes_only_where_it_must(name: str) -> None:
    service = composed()["services"][name]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert ":latest" not in service["image"]
    assert "ports" not in service or name == "caddy", "only the front is reached from outside"


def test_secrets_of_the_compose_file_are_files_that_git_ignores() -> None:
    assert all(secret["file"].startswith("secrets/") for secret in composed()["secrets"].values())
    assert "/infra/secrets/" in (INFRA.parent / ".gitignore").read_text().splitlines()
    assert not re.search(r"(?i)password: [^{]", (INFRA / "compose.yaml").read_text())


def test_the_settings_of_the_compose_file_are_settings() -> None:
    given = composed()["services"]["registry-1"]["environment"]
    environment = {name: re.sub(r"\$\{.*?\}", "", value) for name, value in given.items()}
    environment |= {f"{PREFIX}ADMISSION": "admins", f"{PREFIX}PUBLIC_URL": "https://plugins.example.com"}
    assert unknown_settings(environment) == ()
    check_exposure(read_settings(environment), "0.0.0.0")  # noqa: S104 - what the image listens on


# --- Kubernetes ---

GIVEN: Final = {
    "PLUGREG_REGISTRY_ADMISSION": "admins",
    "PLUGREG_REGISTRY_BLOBS": "s3://plugins/registry",
    "PLUGREG_REGISTRY_PUBLIC_URL": "https://plugins.example.com",
}
EVERYTHING: Final[Mapping[str, Any]] = {
    "storeSecret": "plugreg-store",
    "ingress": {"enabled": True},
    "networkPolicy": {"from": [{"podSelector": {"matchLabels": {"app": "front"}}}]},
    "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/plugreg"}},
    "image": {"pullSecrets": [{"name": "pull"}]},
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "plugreg"}},
        }
    ],
}


def merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    both = {k: merged(one[k], v) if isinstance(v, dict) and k in one else v for k, v in other.items()}
    return {**one, **both}


@cache
def defaults() -> Mapping[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return found


def values(more: Mapping[str, Any]) -> dict[str, Any]:
    return merged(merged(defaults(), {"settings": GIVEN}), more)


def manifests(more: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    names = {
        "Values": values(more),
        "Release": {"Name": "team"},
        "Chart": {"AppVersion": chart["appVersion"]},
    }
    for template in TEMPLATES:
        found = yaml.safe_load(rendered(template.read_text(), names))
        if found is not None:
            yield found


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("more", [{}, EVERYTHING, {"networkPolicy": {"enabled": False}}])
def test_what_the_chart_makes_is_what_kubernetes_takes(more: Mapping[str, Any], version: str) -> None:
    kinds = set()
    for manifest in manifests(more):
        kubernetes_validate.validate(manifest, version, strict=True)
        kinds.add(manifest["kind"])
    assert {"Deployment", "Service", "PodDisruptionBudget", "ServiceAccount", "ConfigMap"} <= kinds
    assert ("Ingress" in kinds) == bool(more.get("ingress"))


def test_the_pods_of_the_chart_have_no_rights_and_reach_their_secrets_by_name() -> None:
    deployment = next(found for found in manifests(EVERYTHING) if found["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert deployment["spec"]["replicas"] >= 2
    assert all(kind["kind"] != "Secret" for kind in manifests(EVERYTHING)), "secrets are not values"


def test_labels_of_service_budget_policy_and_pods_are_the_same() -> None:
    found = {manifest["kind"]: manifest["spec"] for manifest in manifests(EVERYTHING) if "spec" in manifest}
    labels = found["Deployment"]["template"]["metadata"]["labels"]
    assert found["Deployment"]["selector"]["matchLabels"] == labels
    assert found["Service"]["selector"] == labels
    assert found["PodDisruptionBudget"]["selector"]["matchLabels"] == labels
    assert found["NetworkPolicy"]["podSelector"]["matchLabels"] == labels


def schema() -> Mapping[str, Any]:
    found: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
    return found


def test_values_of_the_chart_follow_their_schema() -> None:
    jsonschema.Draft7Validator.check_schema(schema())
    for more in ({}, EVERYTHING):
        jsonschema.validate(values(more), schema())
    assert set(defaults()) == set(schema()["properties"]) - {"global"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"settings": {"PLUGREG_REGISTRY_ADMISSION": ""}},
        {"settings": {"PLUGREG_REGISTRY_DATABASE": "postgresql://u:secret@db/x"}},
        {"settings": {"PLUGREG_REGISTRY_BLOBS": "file:/data"}},
        {"replicas": 0},
        {"replica": 3},
        {"databaseSecret": ""},
    ],
)
def test_values_that_cannot_be_meant_are_refused(wrong: Mapping[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(values(wrong), schema())


def test_the_settings_of_the_chart_are_settings() -> None:
    assert unknown_settings(defaults()["settings"]) == ()


# --- Terraform ---


@cache
def terraform() -> Mapping[str, Any]:
    """All blocks of the folder: by kind, then by name or by type and name."""
    found: dict[str, list[Any]] = {}
    for file in TERRAFORM:
        with file.open() as text:
            for kind, blocks in hcl2.load(text).items():
                found.setdefault(kind.strip('"'), []).extend(blocks)
    return found


def named(kind: str) -> set[str]:
    blocks = terraform().get(kind, [])
    return {_plain(name) for block in blocks for name in block if not name.startswith("__")}


def typed(kind: str) -> set[str]:
    blocks = terraform().get(kind, [])
    return {f"{_plain(t)}.{_plain(n)}" for block in blocks for t, inner in block.items() for n in inner}


def _plain(name: str) -> str:
    return name.strip('"')


def test_what_terraform_files_refer_to_is_there() -> None:
    text = "\n".join(re.sub(r"(?m)#.*$", "", file.read_text()) for file in TERRAFORM)
    variables = set(re.findall(r"\bvar\.(\w+)", text))
    assert variables == named("variable")
    assert set(re.findall(r"\blocal\.(\w+)", text)) <= set().union(*map(set, terraform()["locals"]))
    assert {f"{t}.{n}" for t, n in re.findall(r"\bdata\.(\w+)\.(\w+)", text)} == typed("data")
    used = {f"{t}.{n}" for t, n in re.findall(r"(?<!data\.)(?<![\w.])(aws_\w+)\.(\w+)", text)}
    assert used <= typed("resource") | typed("data")


def test_cloudfront_never_reads_what_was_not_checked() -> None:
    text = (INFRA / "terraform" / "storage.tf").read_text()
    folders = re.search(r"for folder in \[(.*?)\]", text)
    assert folders is not None
    assert sorted(json.loads(f"[{folders[1]}]")) == [".well-known", "attestations", "blobs", "index"]


@pytest.mark.skipif(shutil.which("terraform") is None, reason="Terraform is not installed")
def test_terraform_files_are_formatted() -> None:
    run("terraform", "fmt", "-check", "-diff", INFRA / "terraform")


# --- fronts, systemd, YAML ---


@on_linux
@pytest.mark.parametrize("name", ["Caddyfile", "Caddyfile.static"])
def test_caddy_takes_its_files_and_finds_them_formatted(name: str) -> None:
    run(PROGRAMS / "caddy", "validate", "--adapter", "caddyfile", "--config", INFRA / name)
    changed = [
        line
        for line in run(PROGRAMS / "caddy", "fmt", "--diff", INFRA / name).splitlines()
        if line[0] in "+-"
    ]
    assert changed == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_the_unit_is_one_and_exposes_little(tmp_path: Path) -> None:
    unit = tmp_path / "plugreg-registry.service"
    text = (INFRA / unit.name).read_text()
    unit.write_text(text.replace("/opt/plugreg/bin/plugreg-registry", "/bin/true"))
    run("systemd-analyze", "verify", unit)
    run("systemd-analyze", "security", "--offline=true", "--threshold=20", unit)


def test_yaml_files_are_tidy() -> None:
    rules = "{extends: default, rules: {line-length: {max: 130}, document-start: disable, braces: {max-spaces-inside: 1}}}"
    files = [INFRA / "compose.yaml", CHART / "Chart.yaml", CHART / "values.yaml"]
    run(PROGRAMS / "yamllint", "--strict", "-d", rules, *files)


def test_no_file_names_a_secret_or_an_address_of_ours() -> None:
    files = [path for path in INFRA.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    for file, word in itertools.product(
        files, ("AKIA", "BEGIN PRIVATE KEY", "/work/", "host.docker.internal")
    ):
        assert word not in file.read_text(), (file, word)
