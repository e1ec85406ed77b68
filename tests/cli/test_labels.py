import re

import pytest

from unsay.cli.demo_commands import scenario
from unsay.cli.output import SCHEMA_VERSION
from unsay.cli.strings import Labels
from unsay.conversation import timeline
from unsay.prompts.base import Entry, placeholders


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, each in vars(Labels).items()
        if isinstance(each, Entry) and isinstance(each.en, str)
    ],
)
def test_both_languages_say_the_same(name: str) -> None:
    """A note has words in both languages, with the same values in them, unless it has only values."""
    english, japanese = getattr(Labels("en"), name), getattr(Labels("ja"), name)
    has_words = re.search(r"\w", re.sub(r"\{.*?\}", "", english))
    assert english != japanese or not has_words
    assert placeholders(english) == placeholders(japanese)


def test_both_scripts_have_the_same_acts() -> None:
    """The demo shows the same in both languages."""
    english, japanese = scenario("en").acts, scenario("ja").acts
    assert [(len(act.replies), act.inserted is None) for act in english] == [
        (len(act.replies), act.inserted is None) for act in japanese
    ]


def test_one_schema_version() -> None:
    """All objects of the command line count alike."""
    assert timeline.SCHEMA_VERSION == SCHEMA_VERSION
