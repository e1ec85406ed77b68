"""A host's own catalogue of texts is used everywhere."""

import pytest

from unsay import Conversation, build_graph
from unsay.errors import ConfigurationError
from unsay.prompts import ENGLISH, JAPANESE
from unsay.testing import ScriptedChat, ScriptedJudge

MINE = ENGLISH.replace(no_checkpoints="No good point so far.")
JUDGING = ENGLISH.replace(judge_system="Grade like a strict teacher. Reply with JSON.")


def test_a_notice_uses_the_hosts_words() -> None:
    """A changed notice is given in its language, also with a catalogue for each language."""
    model = ScriptedChat(default="列車で行けます。")
    with Conversation.open(
        ":memory:", model=model, judge=ScriptedJudge(), prompts=MINE
    ) as conversation:
        assert conversation.say("/checkpoints").text == "No good point so far."
    theirs = JAPANESE.replace(no_checkpoints="まだありません。")
    settings = {"language": "ja"}
    with Conversation.open(
        ":memory:", model=model, prompts=[MINE, theirs], settings=settings
    ) as conversation:
        assert conversation.say("/checkpoints").text == "まだありません。"


def test_the_judge_reads_the_hosts_words() -> None:
    """A compiled graph sends the changed prompt to its judge."""
    judge = ScriptedJudge()
    graph = build_graph(ScriptedChat(default="Hello!"), judge=judge, prompts=[JUDGING, JAPANESE])
    graph.invoke({"messages": [("user", "Hi there")]})
    assert judge.calls[0][0].content.startswith("Grade like a strict teacher")


@pytest.mark.parametrize(
    "wrong", [5, "ENGLISH", [ENGLISH, MINE], [None]], ids=["number", "text", "twice", "none"]
)
def test_what_is_no_catalogue_is_refused(wrong: object) -> None:
    """A graph is not built with prompts that it cannot use."""
    with pytest.raises(ConfigurationError, match="prompts"):
        build_graph(prompts=wrong)  # type: ignore[arg-type]
