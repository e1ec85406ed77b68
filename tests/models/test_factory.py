"""A change of the model inside LangChain's wrappers."""

from langchain_core.runnables import RunnableLambda, RunnableParallel

from unsay.models.factory import change_inner, inner_of


def test_a_parallel_with_one_part_is_a_wrapper() -> None:
    """The part is changed, the parallel stays around it, and the given model is not changed."""
    agent = RunnableLambda(lambda text: f"agent of {text}")
    model = RunnableParallel(out=agent) | (lambda outputs: outputs["out"])
    inner_models = []

    def change(inner: object) -> RunnableLambda[str, str]:
        inner_models.append(inner)
        return RunnableLambda(lambda text: f"changed {text}")

    new_model = change_inner(model, change)

    assert agent is inner_of(model)
    assert [agent] == inner_models
    assert ("changed x", "agent of x") == (new_model.invoke("x"), model.invoke("x"))
