import json

import pytest

from tests.cli.conftest import Run, Serve
from tests.cli.scripted_conversation import ANSWERS, LISTS, NESTED, ON_LISTS


def test_a_turn_id_makes_a_message_one_turn(run: Run, serve: Serve) -> None:
    """Sent again, it prints the stored answer, and the model is not asked."""
    server = serve(ANSWERS)
    command = ("say", LISTS, "--thread", "t", "--turn-id", "order-1", "--json")
    first, second = (json.loads(run(*command).stdout) for _ in range(2))

    assert first == second
    assert (ON_LISTS, "order-1") == (first["text"], first["turn_id"])
    assert 1 == len(server.asked_of("answerer"))


def test_other_words_under_the_same_turn_id_are_a_conflict(run: Run, serve: Serve) -> None:
    """The exit code is a conflict's, and the error names both."""
    serve(ANSWERS)
    run("say", LISTS, "--thread", "t", "--turn-id", "order-1")
    result = run("say", NESTED, "--thread", "t", "--turn-id", "order-1")

    assert 4 == result.exit_code
    assert "'order-1' was used for" in result.stderr
    assert NESTED in result.stderr


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(("say", LISTS), id="no-thread"),
        pytest.param(("say", "--thread", "t", "--resume"), id="no-words"),
    ],
)
def test_a_turn_id_needs_words_and_a_thread(run: Run, serve: Serve, args: tuple[str, ...]) -> None:
    """In a thread that is new each time it would name another turn each time."""
    serve(ANSWERS)
    result = run(*args, "--turn-id", "order-1")

    assert 2 == result.exit_code
    assert "needs TEXT and --thread" in result.stderr


def test_an_answer_is_handed_back(run: Run, serve: Serve) -> None:
    """The answer that an error showed is saved, and the model is not asked."""
    server = serve(ANSWERS)
    command = ("say", LISTS, "--thread", "t", "--turn-id", "order-1")

    reply = json.loads(run(*command, "--answer", "Lists are ordered.", "--json").stdout)
    second_reply = json.loads(run(*command, "--json").stdout)
    result = run("say", LISTS, "--thread", "t", "--answer", "Lists are ordered.")

    assert ("Lists are ordered.", "unscored", reply) == (
        reply["text"],
        reply["outcome"],
        second_reply,
    )
    assert [] == server.asked_of("answerer")
    assert (2, True) == (result.exit_code, "--answer needs --turn-id" in result.stderr)
