"""Real Sigstore bundles get their verdict offline, at any wall clock, from shipped or carried roots.

One process judges them all: without a network where namespaces can be had, with a home that stays empty.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.clocks import shifted_clock
from tests.support.registries import REPOSITORY

if TYPE_CHECKING:
    from tests.support.local_sigstore import LocalSigstore

CORPUS = Path(os.environ.get("PLUGREG_CORPUS") or REPOSITORY.parent / "shared/corpus") / "signatures"
CARRIED = REPOSITORY / "tests/data/signatures"
STATEMENTS = {
    "dsse-invalid-sig_fail",
    "dsse-mismatch-envelope_fail",
    "dsse-mismatch-sig_fail",
    "happy-path-intoto-in-dsse-v3",
    "rekor2-dsse-happy-path",
    "rekor2-dsse-mismatch-sig_fail",
}
"""The bundles that hold a statement: the others hold a bare signature over bytes, which no publish accepts."""
SUBJECT = (
    "https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon/"
    ".github/workflows/extremely-dangerous-oidc-beacon.yml@refs/heads/main"
)
ISSUER = "https://token.actions.githubusercontent.com"

JUDGE = """
import json, sys, time
from datetime import datetime
from pathlib import Path
from plugreg_schemas.errors import PlugregError
from plugreg_schemas.trust.envelope import read_envelope
from plugreg_schemas.trust.material import load_root, public_trust_config, read_trust_config, root_at
from plugreg_schemas.trust.sigstore import SigstoreVerifier

def statement(folder, config):
    envelope = read_envelope(json.loads((folder / "bundle.sigstore.json").read_bytes()))
    SigstoreVerifier(lambda: config).verify(envelope)

def bare(folder, config, subject, issuer):
    from sigstore.models import Bundle
    from sigstore.verify import Verifier, policy
    identity = folder / "identity"
    if identity.is_file():
        subject, issuer = identity.read_text().strip(), (folder / "issuer").read_text().strip()
    bundle = Bundle.from_json((folder / "bundle.sigstore.json").read_bytes())
    entry = json.loads(bundle.to_json())["verificationMaterial"]["tlogEntries"][0]
    stamps = bundle.verification_material.timestamp_verification_data
    times = [s.tst_info.gen_time for s in stamps.rfc3161_timestamps] if stamps else []
    if entry.get("integratedTime"):
        times.append(datetime.fromtimestamp(int(entry["integratedTime"])).astimezone())
    root = load_root(root_at(read_trust_config(config)["trustedRoot"], times))
    artifact = folder / "artifact" if (folder / "artifact").is_file() else folder.parent / "a.txt"
    who = policy.AllOf([policy.OIDCIssuerV2(issuer), policy.Identity(identity=subject)])
    try:
        Verifier(trusted_root=root).verify_artifact(artifact.read_bytes(), bundle, who)
    except Exception as error:
        if type(error).__name__ in ("NameError", "TypeError", "ImportError"):
            raise
        raise PlugregError("bare", type(error).__name__)

asked = json.load(sys.stdin)
found = {}
for name, kind in asked["folders"]:
    folder = Path(name)
    root = folder / "trusted_root.json"
    config = root.read_bytes() if root.is_file() else public_trust_config()
    try:
        statement(folder, config) if kind == "statement" else bare(folder, config, *asked["identity"])
        found[folder.name] = "verified"
    except PlugregError as error:
        found[folder.name] = error.code
    except Exception as error:
        found[folder.name] = "verified" if False else f"{type(error).__name__}: {error}"
print(json.dumps({"now": time.time(), "verdicts": found}))
"""


@cache
def prefix() -> tuple[str, ...]:
    """What takes the network away from a command, where this machine allows it."""
    unshare = shutil.which("unshare")
    command = (unshare or "", "--user", "--map-root-user", "--net", "--")
    if unshare and subprocess.run([*command, "true"], check=False, capture_output=True).returncode == 0:
        return command
    return ()


def judge(folders: list[tuple[Path, str]], home: Path, clock: dict[str, str]) -> dict[str, Any]:
    """The verdicts by folder name, and what the process took for the time."""
    home.mkdir()
    paths = [str(REPOSITORY / folder) for folder in ("schemas", "client")]
    done = subprocess.run(
        [*prefix(), sys.executable, "-B", "-c", JUDGE],
        input=json.dumps({"folders": [(str(f), kind) for f, kind in folders], "identity": (SUBJECT, ISSUER)}),
        env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": os.pathsep.join(paths), **clock},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert list(home.iterdir()) == [], "the home was written into"
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def clock_of(folder: Path, days: int) -> dict[str, str]:
    return shifted_clock(folder, days) if days else {}


DAYS = pytest.mark.parametrize("days", [0, -1, 3653], ids=["now", "a day ago", "in ten years"])


@DAYS
def test_carried_bundles_verify_offline_at_any_clock(tmp_path: Path, days: int) -> None:
    """T23, K1, K3."""
    folders = [(CARRIED / name, "statement") for name in ("rekor1", "rekor2")]
    found = judge(folders, tmp_path / "home", clock_of(tmp_path, days))
    assert found["verdicts"] == {"rekor1": "verified", "rekor2": "verified"}


@DAYS
def test_every_bundle_of_the_corpus_gets_its_verdict(tmp_path: Path, days: int) -> None:
    if not CORPUS.is_dir():
        pytest.skip(f"the corpus of real bundles is not at {CORPUS}; name it with PLUGREG_CORPUS")
    folders = [
        (folder, "statement" if folder.name in STATEMENTS else "bare")
        for folder in sorted(CORPUS.iterdir())
        if folder.is_dir() and not folder.name.startswith("managed-key")
    ]
    found = judge(folders, tmp_path / "home", clock_of(tmp_path, days))["verdicts"]
    wrong = {
        name: verdict for name, verdict in found.items() if (verdict == "verified") == name.endswith("_fail")
    }
    assert wrong == {}
    assert len(found) == len(folders) == 18


@pytest.mark.parametrize("days", [-1, 3653], ids=["a day ago", "in ten years"])
def test_a_signature_made_just_now_is_judged_alike_at_any_clock(
    tmp_path: Path, sigstore: LocalSigstore, days: int
) -> None:
    """K3: the authorities of a young instance are not valid yet by a clock that is a day behind."""
    from tests.support.record import publish

    folders = []
    for rekor in (1, 2):
        folder = tmp_path / f"local{rekor}"
        folder.mkdir()
        value = sigstore.sign(publish("1.0.0").payload(), sigstore.ci_token(), rekor)
        (folder / "bundle.sigstore.json").write_text(json.dumps(value))
        (folder / "trusted_root.json").write_text(json.dumps(sigstore.trusted_root()))
        folders.append((folder, "statement"))
    found = judge(folders, tmp_path / "home", clock_of(tmp_path, days))
    assert found["verdicts"] == {"local1": "verified", "local2": "verified"}
    assert abs(found["now"] - (folders[0][0].stat().st_mtime + days * 86_400)) < 3600
