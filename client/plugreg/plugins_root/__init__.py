"""The plugins root: the folder in which installed plugins lie, shared with other tools.

<root>/<name> -> .store/<name>/<version>-<digest12>      active; flipping the link is the commit point
<root>/.store/<name>/<version>-<digest12>/               its tree, never changed once it is active
<root>/.store/<name>/<version>-<digest12>.tar.zst, .sigstore.json, .facts.json     what proves it, beside it
<root>/.store/.staging/<random>/                         the work of the one writer
<root>/.data/<name>/                                     PLUGIN_DATA
<root>/.data/.folders/<folder>-<digits>/                 the same of a plugin that is not installed
<root>/.state/<name>.json                                facts (the link is the truth) and the pin
<root>/.lock                                             one writer at a time; readers never wait

layout         where each thing is, and whether an entry of the root is ours
records        facts, state and pin as files
locking        one writer
durability     moves, barriers, and what a file system's refusals mean
staging        from a bundle to a tree
activation     from staging to store to link
writing        the frame around every change: lock, heal, work, clean up
healing        what a killed command left
examination    whether an installed tree is still the signed one
"""

from __future__ import annotations

from plugreg.plugins_root.layout import PluginsRoot, StoreEntry
from plugreg.plugins_root.records import Facts, Pin, State
from plugreg.plugins_root.writing import Workspace, writing

__all__ = ["Facts", "Pin", "PluginsRoot", "State", "StoreEntry", "Workspace", "writing"]
