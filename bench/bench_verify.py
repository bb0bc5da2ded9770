"""How long a signature takes to verify: by a key, and by a certificate with Rekor 1 and Rekor 2.

Prints milliseconds: of processor time where warm (in a process that has verified one before), and what a cold
process waits for its first certificate, the import of the library included. Everything is offline; a local
Sigstore makes the signatures.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.support.local_sigstore import LocalSigstore
from tests.support.record import author, publish

from plugreg_schemas.documents import canonical_json
from plugreg_schemas.trust.envelope import parse_envelope
from plugreg_schemas.trust.sigstore import SigstoreVerifier
from plugreg_schemas.trust.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 300
COLD_ROUNDS = 7
COLD = """
import sys, time
from pathlib import Path
from plugreg_schemas.trust.envelope import parse_envelope
from plugreg_schemas.trust.sigstore import SigstoreVerifier
from plugreg_schemas.trust.verify import verify
began = time.perf_counter()
verify(parse_envelope(Path(sys.argv[1]).read_bytes()), {}, SigstoreVerifier(Path(sys.argv[2]).read_bytes))
print(time.perf_counter() - began)
"""


def measure(what: str, run: Callable[[], object], rounds: int = ROUNDS) -> None:
    """Print the median and the 95th percentile of several runs, after one that is not counted."""
    run()
    times = []
    for _ in range(rounds):
        began = time.process_time()
        run()
        times.append((time.process_time() - began) * 1000)
    times.sort()
    print(f"{what:<28} median {statistics.median(times):7.2f} ms   p95 {times[rounds * 95 // 100]:7.2f} ms")


def cold(envelope: bytes, config: bytes) -> None:
    """Print what the first certificate costs a process that does everything else already."""
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder) / "envelope", Path(folder) / "config"
        paths[0].write_bytes(envelope)
        paths[1].write_bytes(config)
        command = [sys.executable, "-c", COLD, *map(str, paths)]
        times = [
            float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) * 1000
            for _ in range(COLD_ROUNDS)
        ]
    print(f"{'certificate, cold process':<28} median {statistics.median(times):7.2f} ms")


def main() -> None:
    """Measure all."""
    for algorithm in ("ed25519", "ecdsa-p256"):
        by = author(algorithm)
        content = by.sign(publish("1.0.0")).content
        keys = {by.signer.id: by.spki}
        measure(f"key, {algorithm}", lambda c=content, k=keys: verify(parse_envelope(c), k))  # type: ignore[misc]
    with LocalSigstore().serving() as sigstore:
        payload, config = publish("1.0.0").payload(), sigstore.trust_config()
        made = {rekor: canonical_json(sigstore.sign(payload, sigstore.ci_token(), rekor)) for rekor in (1, 2)}
    verifier = SigstoreVerifier(lambda: config)
    for rekor, content in made.items():
        assert json.loads(content)["dsseEnvelope"]
        measure(f"certificate, Rekor {rekor}", lambda c=content: verify(parse_envelope(c), {}, verifier))  # type: ignore[misc]
    cold(made[2], config)


if __name__ == "__main__":
    main()
