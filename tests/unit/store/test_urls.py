"""Both drivers' addresses come out of one DSN, and no password comes out at all."""

import pytest

from scholar_rag_li.errors import StoreError
from scholar_rag_li.store.connection import Database, open_database, without_password
from scholar_rag_li.store.urls import async_url, asyncpg_dsn, sync_url


@pytest.mark.parametrize(
    "scheme", ["postgres", "postgresql", "postgresql+asyncpg", "postgresql+psycopg2"]
)
def test_every_scheme_of_postgresql_means_the_same(scheme):
    """The driver is ours to choose, whatever the scheme says."""
    assert sync_url(f"{scheme}://ana@db:5433/tesis") == sync_url(
        "postgresql://ana@db:5433/tesis"
    )


@pytest.mark.parametrize("translate", [lambda url: url, async_url])
def test_special_characters_of_a_password_survive(translate):
    """%40 is @ and %2F is / for both drivers."""
    url = sync_url("postgresql://ana:p%40s%2Fs@db/tesis")
    assert translate(url).password == "p@s/s"  # noqa: S105  # an invented one


@pytest.mark.parametrize("mode", ["disable", "prefer", "require", "verify-full"])
def test_sslmode_is_called_ssl_by_asyncpg(mode):
    """Asyncpg takes libpq's modes, under another name."""
    url = async_url(sync_url(f"postgresql://ana@db/tesis?sslmode={mode}"))
    assert dict(url.query) == {"ssl": mode}


def test_a_socket_directory_reaches_both_drivers():
    """`host` in the query is kept."""
    url = sync_url("postgresql://ana@/tesis?host=/run/postgresql")
    assert async_url(url).query["host"] == url.query["host"] == "/run/postgresql"


def test_asyncpg_gets_certificates_as_a_dsn_and_nothing_it_does_not_know():
    """`sslrootcert` is passed on; `channel_binding` is libpq's own."""
    url = sync_url("postgresql://db/tesis?sslrootcert=/ca.pem&channel_binding=require")
    assert asyncpg_dsn(url) == {"dsn": "postgresql:///?sslrootcert=%2Fca.pem"}


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://ana:s3cret@db/tesis",
        "postgresql://ana@db/tesis?password=s3cret",
    ],
)
def test_repr_hides_the_password(dsn):
    """A database shows its address without the password, wherever that stood."""
    assert "s3cret" not in repr(Database(sync_url(dsn)))


@pytest.mark.parametrize(
    "dsn",
    [
        "mysql://ana:s3cret@db/tesis",
        "s3cret",
        "postgresql://ana:x@s3cret@db/tesis",
        "postgresql://ana:x/s3cret@db/tesis",
        "postgresql://ana:s3cret@127.0.0.1:1/tesis",
        "postgresql://ana@127.0.0.1:1/tesis?password=s3cret",
        "postgresql://ana:s3cret@127.0.0.1:1/tesis?no_such_option=1",
    ],
)
def test_no_error_shows_the_password(dsn):
    """Neither a DSN that can't be read nor a server that isn't there repeats it."""
    with pytest.raises(StoreError) as caught:
        open_database(dsn)
    assert "s3cret" not in str(caught.value)


def test_a_short_password_does_not_show_by_its_gaps():
    """'e' occurs all over the text, which is that of an address without a password."""
    texts = []
    for user in ("ana", "ana:e"):
        with pytest.raises(StoreError) as caught:
            open_database(f"postgresql://{user}@127.0.0.1:1/tesis")
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://ana:p@ss@db/tesis", "postgresql://ana:***@db/tesis"),
        (r"host=db password='it\'s e' port=1", "host=db password=*** port=1"),
        ("postgresql://db/tesis?password=e&port=1", None),
        ('user "ana": password authentication failed', None),
    ],
)
def test_a_password_is_hidden_where_an_address_has_it(text, shown):
    """In libpq's two forms; the word alone is no password."""
    expected = shown or text.replace("password=e", "password=***")
    assert without_password(text) == expected


@pytest.mark.parametrize("value", ["abc", "-1", "0", "1.5", "²"])
def test_a_timeout_that_is_none_is_refused_in_one_line(value):
    """Whole seconds from 1: asyncpg would take 0 for no time at all, libpq for ever."""
    with pytest.raises(StoreError, match=r"^connect_timeout .* whole number .*$"):
        open_database(f"postgresql://db/tesis?connect_timeout={value}")


def test_an_option_given_twice_is_refused():
    """Which one would be meant?"""
    with pytest.raises(StoreError, match="the DSN gives connect_timeout 2 times"):
        sync_url("postgresql://db/tesis?connect_timeout=3&connect_timeout=4")


def test_several_hosts_are_libpqs_way():
    """It tries one after the other."""
    url = sync_url("postgresql:///tesis?host=one&host=two")
    assert url.query["host"] == ("one", "two")


def test_an_unreachable_server_is_named_in_one_line():
    """Host, port, database and user are what there is to check."""
    with pytest.raises(
        StoreError, match=r"^.*host 127.0.0.1, port 1, database tesis, user ana: .*$"
    ):
        open_database("postgresql://ana@127.0.0.1:1/tesis")
