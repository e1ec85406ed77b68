"""A change of the model inside LangChain's wrappers."""

from langchain_core.runnables import RunnableLambda, RunnableParallel

from unsay.models.factory import change_inner, inner_of


def test_a_parallel_with_one_part_is_a_wrapper() -> None:
    """The part is changed, the parallel stays around it, and the given model is not changed."""
    agent = RunnableLambda(lambda text: f"agent of {text}")
    model = RunnableParallel(out=agent) | (lambda parts: parts["out"])
    seen = []

    def change(inner: object) -> RunnableLambda[str, str]:
        seen.append(inner)
        return RunnableLambda(lambda text: f"changed {text}")

    changed = change_inner(model, change)

    assert agent is inner_of(model)
    assert [agent] == seen
    assert ("changed x", "agent of x") == (changed.invoke("x"), model.invoke("x"))
