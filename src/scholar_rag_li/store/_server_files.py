"""What the embedded server leaves on disk and among processes, read with suspicion."""

import hashlib
import json
import os
import re
import stat
import tempfile
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # its types are not needed at run time

from scholar_rag_li.errors import StoreError
from scholar_rag_li.store._programs import (
    PROGRAMS,
    ensure_folder_permissions,
    ensure_user_exists,
)

# A socket's name has at most 103 bytes on macOS, 107 on Linux (sun_path).
SOCKET_NAME_BYTES = 103
# A process id is reused if its process is younger than the note of it; boot time, and
# so every start time, is known to the second only.
CLOCK_SECONDS = 2.0

_OTHERS_MAY_ENTER = stat.S_IXGRP | stat.S_IXOTH
_OTHERS_MAY_READ = stat.S_IRGRP | stat.S_IROTH


def read_pid_file(data: Path) -> tuple[int, str] | None:
    """Return process id and socket directory out of `postmaster.pid`.

    Returns:
        None if there is no such file or it was cut short.
    """
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        # Line 1 is the process id, line 5 the first socket directory (miscadmin.h).
        return int(lines[0]), lines[4].strip()
    except (OSError, ValueError, IndexError):
        return None


def postgres_processes(data: Path) -> set[int]:
    """Return the ids of the PostgreSQL processes of a cluster.

    Every one of them has the cluster's directory as its working directory; that is what
    tells them from another program that has inherited an old number.
    """
    homes = {str(data), f"{data} (deleted)"}
    return {
        process.pid
        for process in psutil.process_iter(["name", "cwd"])
        if (process.info["name"] or "").startswith("postgres")
        and process.info["cwd"] in homes
    }


def is_alive(process_id: int) -> bool:
    """Say whether a process runs; one that ended and was not collected does not."""
    try:
        return bool(psutil.Process(process_id).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def live_handles(file: Path) -> set[int]:
    """Return the noted users of a server that still run, without the killed ones."""
    try:
        noted = file.stat().st_mtime
        handles = json.loads(file.read_text())
    except (OSError, ValueError):
        return set()
    return {
        handle
        for handle in handles
        if is_alive(handle) and _started(handle) <= noted + CLOCK_SECONDS
    }


def _started(process_id: int) -> float:
    """Return when a process started, in epoch seconds; infinity if it has ended."""
    try:
        return float(psutil.Process(process_id).create_time())
    except psutil.Error:
        return float("inf")


def socket_directory(data: Path) -> Path:
    """Return where a cluster's socket lies: with its data, or in a short place.

    The list of socket directories is split at commas and passed through a shell, and a
    socket's name is short by law, so a long or an unusual path gets a directory named
    by its hash.
    """
    name = os.fsencode(data / ".s.PGSQL.5432.lock")
    if len(name) <= SOCKET_NAME_BYTES and re.fullmatch(rb"[A-Za-z0-9_./-]+", name):
        return data
    digest = hashlib.sha256(os.fsencode(data)).hexdigest()[:16]
    short = Path(tempfile.gettempdir()) / f"scholar_rag_li-{digest}"
    short.mkdir(mode=0o700, exist_ok=True)
    if short.is_symlink() or short.stat().st_uid not in {os.geteuid(), _owner(data)}:
        raise StoreError(
            f"{short} belongs to another user; remove it, or name a shorter `directory`"
        )
    _give(short)
    return short


def ordinary_user() -> str | None:
    """Return the user to run PostgreSQL as, since it refuses root; None: as we are."""
    if os.geteuid() != 0:
        return None
    ensure_user_exists("pgserver")
    return "pgserver"


def prepare_for_root(data: Path) -> None:
    """As root, let the ordinary user own the cluster and reach it and the programs."""
    if ordinary_user() is None:
        return
    _give(data)
    for path in (data, PROGRAMS):
        for parent in path.parents:
            mode = parent.stat().st_mode
            if mode & stat.S_IXOTH == 0:
                parent.chmod(mode | _OTHERS_MAY_ENTER)
    if (PROGRAMS / "postgres").stat().st_mode & stat.S_IXOTH == 0:
        ensure_folder_permissions(PROGRAMS.parent, _OTHERS_MAY_ENTER | _OTHERS_MAY_READ)


def _give(path: Path) -> None:
    """As root, make the ordinary user the owner of a directory."""
    user = ordinary_user()
    if user is not None:
        import pwd  # noqa: PLC0415  # does not exist on Windows

        entry = pwd.getpwnam(user)
        os.chown(path, entry.pw_uid, entry.pw_gid)


def _owner(path: Path) -> int:
    """Return the user id that owns a path."""
    return path.stat().st_uid
