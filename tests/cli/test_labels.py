from unsay.cli.demo import scenario
from unsay.cli.output import SCHEMA_VERSION
from unsay.conversation import timeline


def test_both_scripts_have_the_same_acts() -> None:
    """The demo shows the same in both languages."""
    english = scenario("en")["acts"]
    japanese = scenario("ja")["acts"]
    assert [(len(act["replies"]), "inserted" in act) for act in english] == [
        (len(act["replies"]), "inserted" in act) for act in japanese
    ]


def test_one_schema_version() -> None:
    """All objects of the command line count alike."""
    assert timeline.SCHEMA_VERSION == SCHEMA_VERSION
