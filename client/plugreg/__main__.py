"""`python -m plugreg`: the same as `plugreg`."""

from __future__ import annotations

import sys

from plugreg.cli import main

sys.exit(main())
