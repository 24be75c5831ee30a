"""Both drivers' addresses out of one DSN, whose options they name differently."""

import re
from urllib.parse import urlencode

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from scholar_rag_li.errors import StoreError

# What asyncpg reads from a DSN as libpq does. What is in neither place is libpq's own
# business (channel_binding, gssencmode, keepalives...), and asyncpg would send it on as
# a server setting.
_ASYNCPG_DSN_OPTIONS = (
    "sslrootcert",
    "sslcert",
    "sslkey",
    "sslpassword",
    "sslcrl",
    "target_session_attrs",
    "application_name",
    "options",
)


def sync_url(dsn: str) -> sa.URL:
    """Return the psycopg2 URL of a DSN.

    Args:
        dsn: `postgres://`, `postgresql://` or `postgresql+driver://`; special
            characters of the password percent-encoded; libpq's options in the query
            (`?sslmode=require`, `?host=/socket/directory`).

    Raises:
        StoreError: If it is not such a DSN, or an option in it can't be read. The text
            does not repeat it: it may hold a password.

    >>> sync_url("postgres://ana:p%40ss@db/tesis?sslmode=require")
    postgresql+psycopg2://ana:***@db/tesis?sslmode=require
    """
    try:
        url = sa.make_url(re.sub(r"^postgres(?=[:+])", "postgresql", dsn))
    except (ArgumentError, ValueError):
        url = None
    # An @ or a / that was not encoded splits the password: its rest must not be shown
    # as the host.
    split = url is not None and "@" in f"{url.host}{url.database}"
    if url is None or split or url.get_backend_name() != "postgresql":
        raise StoreError(
            "the DSN is not one of PostgreSQL; expected "
            "postgresql://user:password@host:port/database, with @ and / in the "
            "password written as %40 and %2F"
        )
    _check_options(url)
    url = url.set(drivername="postgresql+psycopg2")
    # libpq takes a password from the query as well, where nothing would hide it.
    for key in {"user", "password"} & url.query.keys():
        value = str(url.query[key])
        url = url.difference_update_query([key])
        url = url.set(username=value) if key == "user" else url.set(password=value)
    return url


def _check_options(url: sa.URL) -> None:
    """Refuse an option given twice (but several hosts) and a timeout that is none."""
    for key, value in url.query.items():
        if not isinstance(value, str) and key not in {"host", "port"}:
            raise StoreError(f"the DSN gives {key} {len(value)} times; give it once")
    timeout = str(url.query.get("connect_timeout", "1"))
    if not re.fullmatch(r"0*[1-9][0-9]{0,5}", timeout):
        raise StoreError(
            "connect_timeout in the DSN is not a whole number of seconds from 1 on; "
            "write it as in ?connect_timeout=10"
        )


def async_url(url: sa.URL) -> sa.URL:
    """Return the asyncpg URL of the same database; `sslmode` is called `ssl` there.

    >>> async_url(sync_url("postgresql://ana@db/tesis?sslmode=require&connect_timeout=3"))
    postgresql+asyncpg://ana@db/tesis?ssl=require
    """
    names = {"host": "host", "port": "port", "sslmode": "ssl"}
    query = {names[key]: value for key, value in url.query.items() if key in names}
    return url.set(drivername="postgresql+asyncpg", query=query)


def asyncpg_dsn(url: sa.URL) -> dict[str, str]:
    """Return the options that asyncpg reads from a DSN only, as its argument `dsn`."""
    options = {key: url.query[key] for key in _ASYNCPG_DSN_OPTIONS if key in url.query}
    return {"dsn": f"postgresql:///?{urlencode(options)}"} if options else {}
