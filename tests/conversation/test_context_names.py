"""What users import from `unsay.context`."""

import pytest

import unsay.context


@pytest.mark.parametrize("name", unsay.context.__all__)
def test_every_name_of_the_context_is_there(name: str) -> None:
    """Strategies and what users subclass are found in `unsay.context`."""
    assert getattr(unsay.context, name) is not None
    assert name in dir(unsay.context)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """The error names a misspelled strategy."""
    with pytest.raises(AttributeError, match="SlidingWindows"):
        unsay.context.SlidingWindows  # noqa: B018 - the access is what is tested
