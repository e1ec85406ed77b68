"""`unsay settings`: the settings in force, and where each one comes from."""

import json

import click
from wcwidth import ljust

from unsay.cli.output import plain, show
from unsay.cli.run import settings_of
from unsay.settings.settings import SECTIONS, Settings


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
