"""Who administers this registry: what the trust target of the signed index says, as it is now.

The offline role signs the trust target: neither a setting, nor a row of the database, nor a file that
somebody put into the store makes an administrator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from plugreg_registry.ceremony import signed_trust
from plugreg_schemas.errors import InvalidInput, NotAvailable, Temporary
from plugreg_schemas.index import Admins

if TYPE_CHECKING:
    from plugreg_registry.signed_files import SignedFiles


@dataclass(frozen=True, slots=True)
class TrustTarget:
    """The trust target of the index. It is asked for every question: a rotation may have replaced it."""

    files: SignedFiles

    def admins(self) -> Admins:
        """Return the administrators; none as long as there is no index.

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
