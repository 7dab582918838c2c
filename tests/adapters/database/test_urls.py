"""Database URLs: their parts, and which part is wrong, without repeating a password."""

from __future__ import annotations

import psycopg
import pytest

from adapters import kit
from adapters.database import pgfaults, secrets, urls
from adapters.database.opening import open_url


def test_a_server_is_read_part_by_part() -> None:
    found = urls.read("main=postgres://us%40er@db.example:5433/shop?sslmode=require&password=env:PW")
    assert (found.name, found.engine, found.host, found.port) == ("main", "postgres", "db.example", 5433)
    assert (found.user, found.path, found.secret) == ("us@er", "shop", "env:PW")
    assert found.options == {"sslmode": "require"}
    assert found.where == "db.example:5433/shop"


def test_a_database_without_a_name_has_that_of_its_file_or_of_its_own() -> None:
    assert urls.read("sqlite:////data/shop.db").name == "shop"
    assert urls.read("postgresql://h/orders").name == "orders"


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ("oracle://h/d", "scheme 'oracle'"),
        ("shop.db", "no scheme: a file is sqlite:///FILE"),
        ("postgres://u@h:70000/d", "port"),
        ("postgres://u@h:x/d", "port"),
        ("postgres://u@h/", "database"),
        ("postgres://u@h/a/b", "database"),
        ("postgres://u:hunter2@h/d", "password"),
        ("postgres://u@h/d?password=hunter2", "password"),
        ("postgres://u@h/d?sslmod=require", "option 'sslmod'"),
        ("postgres://u@h/d#x", "fragment"),
        ("sqlite://host/x.db", "host"),
        ("sqlite://", "path"),
        ("sqlite:///x.db?mode=rw", "option 'mode'"),
    ],
)
def test_a_wrong_url_says_which_part_is_wrong(given: str, part: str) -> None:
    with pytest.raises(kit.ToolError, match=part) as caught:
        urls.read(given)
    assert "hunter2" not in str(caught.value)


def test_only_a_url_out_of_the_environment_may_hold_its_password() -> None:
    assert urls.read("postgres://u:hunter2@h/d", hidden=True).password == "hunter2"


def test_a_variable_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_URL", raising=False)
    with pytest.raises(kit.ToolError, match="NO_SUCH_URL"):
        open_url("main=env:NO_SUCH_URL", writable=False)
    with pytest.raises(kit.ToolError, match="NO_SUCH_URL"):
        secrets.look_up("env:NO_SUCH_URL")


def test_a_password_comes_out_of_the_environment_and_the_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    import keyring

    def stored(service: str, user: str) -> str | None:
        return "s3cret" if (service, user) == ("tieline", "shop/main") else None

    monkeypatch.setattr(keyring, "get_password", stored)
    monkeypatch.setenv("SHOP_PW", "hunter2")
    assert secrets.look_up("env:SHOP_PW") == "hunter2"
    assert secrets.look_up("keyring:tieline/shop/main") == "s3cret"
    with pytest.raises(kit.ToolError, match="none for nobody at tieline"):
        secrets.look_up("keyring:tieline/nobody")


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (psycopg.errors.DeadlockDetected("x"), "io"),
        (psycopg.errors.SerializationFailure("x"), "io"),
        (psycopg.errors.AdminShutdown("x"), "io"),
        (psycopg.errors.TooManyConnections("x"), "io"),
        (psycopg.errors.QueryCanceled("x"), "timeout"),
        (psycopg.errors.LockNotAvailable("x"), "timeout"),
        (psycopg.errors.InsufficientPrivilege("x"), "denied"),
        (psycopg.errors.ReadOnlySqlTransaction("x"), "denied"),
        (psycopg.errors.UndefinedTable("x"), "invalid_request"),
        (psycopg.errors.DivisionByZero("x"), "invalid_request"),
    ],
)
def test_an_error_of_postgres_is_of_the_kind_that_tells_what_to_do(fault: psycopg.Error, code: str) -> None:
    assert pgfaults.explain(fault, "", "").code == code


def test_a_password_that_the_driver_repeats_is_not_passed_on() -> None:
    fault = psycopg.OperationalError('connection to "hunter2@h" failed: password "hunter2" is wrong')
    told = pgfaults.unreachable(fault, "h/d", "hunter2")
    assert "hunter2" not in str(told)
    assert "user or password of the URL" in str(told)
    assert "hunter2" not in str(pgfaults.explain(fault, "", "hunter2"))
