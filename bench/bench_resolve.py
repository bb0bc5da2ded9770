"""Resolve plugins of one and of three alternatives for hosts of every kind, all in memory.

    python bench/bench_resolve.py

Prints the best of several rounds in microseconds for one answer. The budget for three alternatives is 20 us.
"""

from __future__ import annotations

import json
import timeit

from plugreg_schemas.alternatives import Alternative, Entry, Offer
from plugreg_schemas.hosts import Host, host_from
from plugreg_schemas.resolve import resolve

BUDGET_US = 20
CALLS = 5000
ROUNDS = 7

PYTHON = Alternative("in_process", language="python")
STDIO = Alternative("mcp_stdio")
HTTP = Alternative("mcp_http")

PLUGINS = {
    "1 alternative": Offer("demo", "1.0.0", (Entry("main", (STDIO,)),)),
    "3 alternatives": Offer("demo", "1.0.0", (Entry("main", (PYTHON, STDIO, HTTP)),)),
    "3 alternatives, all facts": Offer(
        "demo",
        "1.0.0",
        (Entry("main", (PYTHON, STDIO, HTTP)),),
        tier="B",
        core_version=">=0.2.0,<0.3.0",
        capability_kind="tool",
        platforms=("linux-x86_64", "macos-arm64"),
    ),
}
HOSTS = {
    "same language": host_from({"language": ["python"]}),
    "another language": host_from({"language": ["go"]}),
    "nothing usable": host_from({"language": ["go"], "supports": ["sidecar"]}),
    "cursor": host_from({"host": ["cursor"]}),
    "everything stated": host_from(
        {
            "language": ["python"],
            "supports": ["in_process,mcp_stdio,mcp_http"],
            "prefer": ["mcp_http"],
            "core_version": ["0.2.9"],
            "kind": ["tool,orchestrator"],
            "platform": ["linux-x86_64"],
            "environment": ["production"],
        }
    ),
}


def microseconds(offer: Offer, host: Host) -> float:
    """Return the time of one answer, the best of several rounds."""
    return min(timeit.repeat(lambda: resolve(offer, host), number=CALLS, repeat=ROUNDS)) / CALLS * 1e6


def main() -> None:
    """Measure every plugin on every host."""
    worst = 0.0
    for plugin, offer in PLUGINS.items():
        for name, host in HOSTS.items():
            assert len({json.dumps(resolve(offer, host).as_dict()) for _ in range(10)}) == 1
            spent = microseconds(offer, host)
            worst = max(worst, spent)
            print(f"{plugin:<28}{name:<20}{spent:6.1f} us")
    print(f"worst {worst:.1f} us, budget {BUDGET_US} us: {'ok' if worst <= BUDGET_US else 'OVER'}")


if __name__ == "__main__":
    main()
