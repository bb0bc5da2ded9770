"""Who administers this registry: what the trust target of the signed index says, as it is now.

The offline role signs the trust target: neither a setting, nor a row of the database, nor a file that
somebody put into the store makes an administrator.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from plugreg_registry.ceremony import signed_trust
from plugreg_schemas.errors import InvalidInput, NotAvailable, Temporary
from plugreg_schemas.index import Admins

if TYPE_CHECKING:
    from plugreg_registry.signed_files import SignedFiles


KEPT_SECONDS: Final = 1.0
"""How long an answer holds: a rotation is known so soon, and no transaction waits for the store."""


@dataclass(slots=True)
class TrustTarget:
    """The trust target of the index. It is asked again and again: a rotation may have replaced it."""

    files: SignedFiles
    _answer: tuple[float, Admins] | None = field(default=None, init=False, repr=False)
    """Until when, by the monotonic clock, and what."""

    def admins(self) -> Admins:
        """Return the administrators, as they were a second ago or later; none as long as there is no index.

        Raises:
            Temporary: `index_unusable`: the trust target in the store is not the signed one.
        """
        answer, now = self._answer, time.monotonic()
        if answer is None or answer[0] < now:
            self._answer = answer = (now + KEPT_SECONDS, self._read())
        return answer[1]

    def _read(self) -> Admins:
        """Return the administrators as the store has them now.

        Raises:
            Temporary: `index_unusable`: the trust target in the store is not the signed one.
        """
        try:
            return Admins(signed_trust(self.files, self.files.state()).admins)
        except NotAvailable:
            return Admins()
        except InvalidInput as error:
            raise Temporary(
                "index_unusable", f"the trust target of the index cannot be read: {error.message}"
            ) from None
