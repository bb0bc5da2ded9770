"""`plugreg convert`: make an Agent Plugins package of what is nearly one.

    folder > near_miss.recognise > read     its manifest, its servers, its skills     sources
                                 > turn     each server into one of Agent Plugins     servers, registry_entry
                                 > write    a new folder, and check it                package

The source is never changed. Everything that did not come over is a finding with its code and its place in
the source. Where nothing that runs or teaches would be left, nothing is written.
"""

from __future__ import annotations

from plugreg.convert.package import Converted, convert

__all__ = ["Converted", "convert"]
