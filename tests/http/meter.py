"""A tool, and a model that answers from its result."""

from tests.http.openai_server import Asked, Calls, Said

QUESTION = "How warm is it in Paris?"
ANSWER = "It is 21 degrees in Paris, with a light wind from the west."


def read_meter(city: str) -> str:
    """The temperature of a city."""
    return f"{city}: 21 degrees"


def asks_the_meter(request: Asked) -> Said:
    """Calls the tool first and answers from what it gave; the judge is content."""
    if request.model == "judge":
        return {"score": 0.9, "reason": "It answers the question."}
    if request.body["messages"][-1]["role"] == "tool":
        return ANSWER
    return Calls(name="read_meter", arguments={"city": "Paris"})
