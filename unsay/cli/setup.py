"""`unsay doctor`, `settings`, `schema` and `completion`: what a person needs before and around a chat."""

import json
import os
import platform
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import click
import httpx
from click.shell_completion import get_completion_class
from wcwidth import ljust

from unsay.cli.output import location, plain, print_json, show, versioned
from unsay.cli.run import settings_of
from unsay.errors import InputError, UnsayError
from unsay.graph.builder import make_services
from unsay.history.threads import list_threads
from unsay.messages.content import cells_of
from unsay.prompts.catalogue import Texts
from unsay.settings.settings import SECTIONS, Settings, load_settings
from unsay.storage.base import translated
from unsay.storage.sqlite import open_database
from unsay.storage.urls import file_at, masked

OPENAI = "https://api.openai.com/v1"
SERVER_SECONDS = 5.0
LOCK_SECONDS = 2.0

# What a server answers that cannot serve; another one may just not list its models.
DOWN = (500, 502, 503, 504)

# How a check's status is shown, and in which color.
SIGNS = {"ok": ("ok", "green"), "warning": ("warning", "yellow"), "failed": ("FAILED", "red")}

# Least free space, and most by which two clocks may differ before a lease could be taken wrongly.
FREE_BYTES = 100 * 2**20
CLOCK = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Check:
    """One check of `unsay doctor`; `advice` is empty if nothing is to be done."""

    status: Literal["ok", "warning", "failed"]
    check: str
    found: str
    advice: str = ""


_fine = partial(Check, "ok")
_bad = partial(Check, "failed")
_doubt = partial(Check, "warning")


def doctor(*, db: str | None, as_json: bool) -> None:
    findings = list(_findings(db))
    failed = any(each.status == "failed" for each in findings)

    def show_findings() -> None:
        names = {each.check: each.check for each in findings}
        width = max(map(cells_of, names.values()))
        for each in findings:
            word, color = SIGNS[each.status]
            sign = click.style(ljust(word, 8), fg=color)
            name = ljust(names[each.check], width)
            click.echo(f"{sign}{name}  {each.found}")
            if each.advice:
                click.echo(f"{' ' * (width + 10)}→ {each.advice}")

    show(show_findings, as_json=as_json, ok=not failed, checks=findings)
    if failed:
        click.get_current_context().exit(1)


def _findings(db: str | None) -> Iterator[Check]:
    yield _version()
    try:
        settings = load_settings()
    except UnsayError as error:
        yield _bad("settings", str(error), "Correct the variable or the file unsay.toml.")
        return
    base = os.environ.get("OPENAI_BASE_URL") or OPENAI
    yield from _model(settings, base)
    yield from _database(location(db))


def _version() -> Check:
    names = ("langgraph", "langchain-core", "langchain-openai")
    others = ", ".join(f"{name} {version(name)}" for name in names)
    python = platform.python_version()
    return _fine("version", f"unsay {version('unsay')}, Python {python}, {others}")


def _model(settings: Settings, base: str) -> Iterator[Check]:
    model_name = settings.model or ""
    if not model_name:
        advice = "Set UNSAY_MODEL to a model's name, such as gpt-5-mini."
        yield _bad("model", "No model is named.", advice)
    elsewhere = ":" in model_name and not model_name.startswith("openai:")
    if model_name:
        try:
            _ = make_services(settings=settings).model  # made on first use
        except UnsayError as error:
            problem = Texts("en").message(error, "shell")
            yield _bad("model", problem, "Set the key or the extra that the text names.")
            return
    if elsewhere:
        yield _fine("model", f"{model_name} (its provider's key and server are not checked)")
    of_server = _models_of_server(settings)
    if of_server or not elsewhere:
        yield from _server(of_server, base)


def _models_of_server(settings: Settings) -> list[tuple[str, str]]:
    """Return the variable and the name of each configured model that the OpenAI server has."""
    fields = ("model", "judge_model", "summarizer_model", "title_model", "fallback_model")
    models = [(field, getattr(settings, field) or "") for field in fields]
    models += [("judge_panel", name) for name in settings.judge_panel]
    bare = [(field, name.removeprefix("openai:")) for field, name in models]
    return [(f"UNSAY_{field.upper()}", name) for field, name in bare if name and ":" not in name]


def _server(models: Sequence[tuple[str, str]], base: str) -> Iterator[Check]:
    key = os.environ.get("OPENAI_API_KEY", "")
    own = base != OPENAI
    if key:
        yield _fine("key", f"OPENAI_API_KEY is set; characters: {len(key)}")
    elif own:
        yield _fine("key", "OPENAI_API_KEY is not set; your own server may need none")
    else:
        yield _bad("key", "OPENAI_API_KEY is not set.", "Set it, or OPENAI_BASE_URL.")
    try:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        reply = httpx.get(f"{base.rstrip('/')}/models", headers=headers, timeout=SERVER_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        advice = "Check the network and OPENAI_BASE_URL; is your server running?"
        yield _bad("server", f"{base} cannot be reached: {error}", advice)
        return
    yield _answered(base, reply)
    yield from _offered(models, reply)
    yield from _clock(reply)


def _answered(base: str, reply: httpx.Response) -> Check:
    if reply.status_code in (401, 403):
        advice = "Check OPENAI_API_KEY, and that it is for this server."
        return _bad("server", f"{base} refuses the key ({reply.status_code}).", advice)
    if reply.status_code in DOWN:
        return _bad("server", f"{base} answers {reply.status_code}.", "Try again later.")
    return _fine("server", f"{base} answers")


def _offered(models: Sequence[tuple[str, str]], reply: httpx.Response) -> Iterator[Check]:
    offered: set[str] | None = None
    with suppress(ValueError, KeyError, TypeError):
        offered = {each["id"] for each in reply.json()["data"]}
    for variable, name in models:
        if offered is None:
            yield _fine("model", f"{name} (the server does not list its models)")
        elif name in offered:
            yield _fine("model", name)
        else:
            some = ", ".join(sorted(offered)[:5])
            yield _bad("model", f"The server has no {name!r}.", f"Set {variable}, such as: {some}.")


def _clock(reply: httpx.Response) -> Iterator[Check]:
    try:
        there = parsedate_to_datetime(reply.headers["date"])
    except (KeyError, ValueError):
        return
    apart = abs(datetime.now(UTC) - there)
    if apart > CLOCK:
        seconds = apart.total_seconds()
        advice = "Set the computer's clock: locks between computers and times of turns rely on it."
        yield _doubt("clock", f"It differs from the server's by {seconds:.0f} s.", advice)
    else:
        yield _fine("clock", "as the server's")


def _database(place: str) -> Iterator[Check]:
    file = file_at(place)
    if file is not None:
        file_check = _writable(file)
        yield file_check
        if file_check.status == "failed":
            return
        if not file.exists():
            yield _fine("database", f"{place} does not exist yet; `unsay chat` creates it")
            return
    try:
        with closing(open_database(place)) as database, translated(database.path):
            threads = len(list_threads(database.store))
    except UnsayError as error:
        yield _bad("database", str(error), "Give another with --db, or restore a backup.")
        return
    display_place = masked(place) if file is None else place
    yield _fine("database", f"{display_place}, threads: {threads}")
    if file is not None:
        yield _lock(file)


def _writable(path: Path) -> Check:
    folder = next(each for each in path.absolute().parents if each.exists())
    try:
        with tempfile.TemporaryFile(dir=folder):
            """The folder takes new files, as SQLite makes them."""
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(13, "Permission denied", str(path))
    except OSError as error:
        place = path if error.filename == str(path) else folder
        advice = "Change its permissions, or choose another place with --db or UNSAY_HOME."
        return _bad("write", f"{place} cannot be written: {error.strerror}", advice)
    free = shutil.disk_usage(folder).free
    if free < FREE_BYTES:
        return _doubt("write", f"{free // 2**20} MB are free in {folder}", "Free some space.")
    return _fine("write", f"{folder}, {free / 2**30:.1f} GB free")


def _lock(path: Path) -> Check:
    try:
        with closing(sqlite3.connect(path, timeout=LOCK_SECONDS)) as file:
            file.execute("BEGIN IMMEDIATE")
            file.rollback()
    except sqlite3.Error as error:
        advice = "Another program writes to it: wait, or end that program."
        return _bad("lock", f"The database is locked: {error}", advice)
    return _fine("lock", "free")


def schema(*, command: str, db: str | None, as_json: bool) -> None:
    del db, as_json
    model = import_module("unsay.cli.schemas").model_of(command)
    if model is None:
        raise InputError(code="no_schema", command=command)
    click.echo(
        json.dumps(model.model_json_schema(mode="serialization"), indent=2, ensure_ascii=False)
    )


def completion(*, shell: str, db: str | None, as_json: bool) -> None:
    del db
    group = click.get_current_context().find_root().command
    completion_class: Any = get_completion_class(shell)
    script = completion_class(group, {}, "unsay", "_UNSAY_COMPLETE").source()
    if as_json:
        print_json(versioned(shell=shell, script=script))
    else:
        click.echo(script)


def settings(*, db: str | None, as_json: bool, **options: str | None) -> None:
    del db
    effective = settings_of(options)
    rows = [
        {
            "name": name,
            "value": getattr(effective, name),
            "default": field.default,
            "source": effective.source_of(name),
            "variable": f"UNSAY_{name.upper()}",
        }
        for name, field in Settings.model_fields.items()
    ]

    def show_sections() -> None:
        for title, kind in SECTIONS.items():
            click.echo(click.style(title, bold=True))
            for row in rows:
                if row["name"] in kind.__annotations__:
                    value = row["value"]
                    text = json.dumps(plain(value), ensure_ascii=False)
                    text = "none" if value is None else text
                    source = ljust(row["source"], 12)
                    is_set = row["source"] != "default"
                    click.echo(f"  {click.style(source, bold=is_set)} {row['name']} = {text}")

    show(show_sections, as_json=as_json, settings=rows)
