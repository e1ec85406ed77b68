"""Checks of the arguments of public functions, methods and dataclasses."""

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import SequenceMatcher
from functools import cache, partial, wraps
from types import UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, Unpack, cast, get_args, get_origin

from typing_extensions import is_typeddict

from unsay.errors import ConfigurationError, InputError, UnsayError

# A search takes a fiftieth of the time of a loop over the characters.
_SURROGATE = re.compile("[\ud800-\udfff]")

P = ParamSpec("P")
T = TypeVar("T")


def check_call(
    function: Callable[..., Any],
    args: Iterable[Any],
    kwargs: Mapping[str, Any],
    *,
    label: str = "",
    bound: bool = True,
    error: type[UnsayError] = InputError,
) -> None:
    """Raise `error` unless the arguments have the names and types of the function's parameters.

    With `bound`, `args` do not have the function's first parameter, as `self`. `label` is shown as
    the function's name; empty is its own. Text with a lone surrogate raises `InputError`, because it
    cannot be stored.
    """
    verb = label or function.__name__
    signature = _signature(function, bound)
    parameters = list(signature.parameters.values())
    annotations = {each.name: each.annotation for each in parameters}
    try:
        bound_args = signature.bind(*args, **kwargs).arguments
    except TypeError as problem:
        _refuse_settings(kwargs, annotations, verb, error)
        names = ", ".join(map(_in_call, parameters)) or "no arguments"
        raise error(f"{verb}: {problem}; it takes {names}") from None
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            others, annotation = bound_args.pop(parameter.name, {}), annotations.pop(parameter.name)
            if get_origin(annotation) is Unpack:
                annotations |= get_args(annotation)[0].__annotations__
            else:
                annotations |= dict.fromkeys(others, annotation)
            bound_args |= others
    for name, value in bound_args.items():
        if name not in annotations:
            _refuse_settings({name: value}, annotations, verb, error)
            settings = ", and settings={…} takes settings" if "settings" in annotations else ""
            raise error(
                f"{verb}: there is no option {name!r}{hint(name, annotations)}; the options are "
                f"{', '.join(sorted(annotations))}{settings}"
            )
        if not fits(value, annotations[name]):
            positional = [each.name for each in parameters[: len(tuple(args))]]
            meant = _meant(value, annotations, name, positional)
            raise error(
                f"{verb}: {name} must be {described(annotations[name])}, got {shown(value)}{meant}"
            )
        check_text(value, f"{verb}: {name}")


@cache
def _signature(function: Callable[..., Any], bound: bool) -> inspect.Signature:  # noqa: FBT001
    signature = inspect.signature(function)
    return signature.replace(parameters=list(signature.parameters.values())[bound:])


def _refuse_settings(
    given: Mapping[str, Any], annotations: Mapping[str, Any], verb: str, error: type[UnsayError]
) -> None:
    """Raise `error` for a keyword argument that is the name of a setting.

    A function with the parameter `settings` takes settings only there.
    """
    for kind in get_args(annotations.get("settings")):
        for name in given.keys() & getattr(kind, "model_fields", {}).keys() - annotations.keys():
            raise error(f"{verb}: {name!r} is a setting: write settings={{{name!r}: …}}")


def _meant(
    value: Any, annotations: Mapping[str, Any], name: str, positional: Collection[str]
) -> str:
    """Return what the caller may have meant, for the end of an error; empty if that is not known.

    The text names the number that was given as text, the id of an object, such as a checkpoint, a
    list for a single item, or the texts for documents of LangChain. If a value was given by
    position and fits exactly one other parameter, the text names that parameter.
    """
    if isinstance(value, str) and value.isdecimal() and _takes(int(value), annotations[name]):
        return f" (did you mean {name}={int(value)}?)"
    items = value if isinstance(value, list | tuple) else [value]
    key = value.get("id") if isinstance(value, Mapping) else getattr(value, "id", None)
    if isinstance(key, str) and _takes(key, annotations[name]):
        return f"; give its id: {name}={key!r}"
    if any(hasattr(each, "page_content") for each in items):
        return "; give the texts: [each.page_content for each in …]"
    if fits([value], annotations[name]) and not fits(object(), annotations[name]):
        return f"; put it in a list: {name}=[…]"
    others = [each for each, kind in annotations.items() if each != name and _takes(value, kind)]
    if name in positional and len(others) == 1:
        return f" (did you mean {others[0]}={value!r}?)"
    return ""


def _takes(value: Any, annotation: Any) -> bool:
    """Return whether a value fits an annotation; `False` if every value fits it, as for `Any`."""
    return fits(value, annotation) and not fits(object(), annotation)


def shown(value: Any) -> str:
    """Return a value for an error: a function by its name, anything else as in code."""
    return value.__name__ if inspect.isroutine(value) else repr(value)


def _in_call(parameter: inspect.Parameter) -> str:
    """Return a parameter as it looks in a call, with its default if it has one."""
    if parameter.default is not parameter.empty:
        return f"{parameter.name}={parameter.default!r}"
    return f"{parameter.name}=…" if parameter.kind is parameter.KEYWORD_ONLY else parameter.name


def described(annotation: Any) -> str:
    """Return a type as it is written in code, without module names."""
    if get_origin(annotation) in (Union, UnionType):
        return " | ".join(
            "None" if each is type(None) else described(each) for each in get_args(annotation)
        )
    return re.sub(r"\b[a-z_.]+\.", "", inspect.formatannotation(annotation))


def check_arity(function: Callable[..., Any], count: int, name: str, takes: str) -> None:
    """Raise `ConfigurationError` unless a user's function can be called with `count` arguments.

    `takes` names the arguments in the error. Functions without a readable signature pass.
    """
    if problem := arity_problem(function, count):
        raise ConfigurationError(
            f"{name} is called with {takes}, and {shown(function)} does not take that: {problem}"
        )


def arity_problem(function: Callable[..., Any], count: int) -> str:
    """Return why a user's function cannot be called with `count` arguments; empty if it can be."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of a builtin
        return ""
    # LangChain gives these by name to a function that takes them.
    given = {each: None for each in ("config", "run_manager") if each in signature.parameters}
    try:
        signature.bind(*[None] * count, **given)
    except TypeError as error:
        return str(error)
    return ""


def check_returns(function: Callable[..., Any], name: str, *, may_yield: bool = False) -> None:
    """Raise `ConfigurationError` if a user's function yields instead of returning its result.

    `name` is shown as the function's in the error. With `may_yield` an ordinary generator function
    passes, and only an async one is refused.
    """
    inner = inner_function(function)
    yields = inspect.isgeneratorfunction(inner) and not may_yield
    if yields or inspect.isasyncgenfunction(inner):
        raise ConfigurationError(
            f"{name}={shown(function)} is a generator: use return instead of yield; it may be async"
        )


def inner_function(function: Callable[..., Any]) -> Any:
    """Return the function that a call runs in the end.

    It is the one inside a `functools.partial`, the method `__call__` of an object, or `function`.
    """
    while isinstance(function, partial):
        function = function.func
    return function if inspect.isroutine(function) else getattr(type(function), "__call__", None)  # noqa: B004


def check_text(value: Any, name: str) -> None:
    """Raise `InputError` if a text has a lone surrogate, which cannot be stored.

    Texts inside of lists and mappings are checked too; other values pass. `name` names the value in
    the error.
    """
    if isinstance(value, str):
        if not value.isascii() and _SURROGATE.search(value):
            raise InputError(
                f"{name} is not valid Unicode text, because it has half of a surrogate pair: "
                f"{value[:40]!r}; convert it to UTF-8 first"
            )
    elif isinstance(value, Mapping | list | tuple):
        pairs = value.items() if isinstance(value, Mapping) else ((name, each) for each in value)
        for key, each in pairs:
            check_text(key, name)
            check_text(each, name)


def configured(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function: wrong names or types of its arguments raise `ConfigurationError`."""
    return checked(function, bound=False, error=ConfigurationError)


def configurable(cls: type[T]) -> type[T]:
    """Decorate a dataclass so that wrong names and types of its fields raise `ConfigurationError`."""
    make = checked(cls.__init__, label=cls.__name__, error=ConfigurationError)
    cls.__init__ = make  # type: ignore[method-assign]
    return cls


def checked(
    function: Callable[P, T],
    *,
    label: str = "",
    bound: bool = True,
    error: type[UnsayError] = InputError,
) -> Callable[P, T]:
    """Decorate a method: calls with wrong names or types of arguments raise `error`.

    The call of a generator raises it; an async method raises it when it is awaited. The options are
    those of `check_call`.
    """

    @wraps(function)
    def checking(*args: P.args, **kwargs: P.kwargs) -> T:
        check_call(function, args[bound:], kwargs, label=label, bound=bound, error=error)
        return function(*args, **kwargs)

    @wraps(function)
    async def awaiting(*args: P.args, **kwargs: P.kwargs) -> Any:
        return await cast("Any", checking(*args, **kwargs))

    return cast("Any", awaiting) if inspect.iscoroutinefunction(function) else checking


def fits(value: Any, annotation: Any) -> bool:
    """Return whether a value has the annotated type; a boolean is no number, a text no sequence.

    For a `Literal`, values of the same type as its words fit; for a protocol, all values do.
    """
    kind, args = get_origin(annotation) or annotation, get_args(annotation)
    if kind in (Union, UnionType):
        return any(fits(value, each) for each in args)
    if kind is Literal:  # the verb itself refuses other words, and names those it knows
        return isinstance(value, type(args[0]))
    # The name of a type that is defined later is not looked up.
    if kind is Any or isinstance(kind, str) or getattr(kind, "_is_protocol", False):
        return True
    if kind in (int, float):  # in Python `True` is an int
        return isinstance(value, (int, kind)) and not isinstance(value, bool)
    if not isinstance(value, Mapping if is_typeddict(kind) else kind):
        return False
    if args and issubclass(kind, Mapping):
        return all(fits(key, args[0]) and fits(each, args[1]) for key, each in value.items())
    if args and issubclass(kind, Iterable):  # in Python a text is a sequence of texts
        items = value if isinstance(value, Collection) else ()
        return not isinstance(value, str | bytes | Mapping) and all(
            fits(each, args[0]) for each in items
        )
    return True


def hint(name: object, names: Iterable[str]) -> str:
    """Return a question that suggests the most similar name, for the end of a sentence.

    Empty if no name is similar.
    """
    meant = nearest(name, names)
    return "" if meant is None else f" (did you mean {meant!r}?)"


def nearest(name: object, names: Iterable[str], *, least: float = 0.6) -> str | None:
    """Return the name most similar to `name`; `None` if none is at least `least` similar (0 to 1).

    The order of the words in a name does not matter.
    """
    wanted = str(name).lower()
    likeness, best = max(((_likeness(wanted, each), each) for each in names), default=(0.0, None))
    return best if likeness >= least else None


def _likeness(one: str, other: str) -> float:
    one_sorted, other_sorted = ("_".join(sorted(name.split("_"))) for name in (one, other))
    spelt = SequenceMatcher(None, one, other).ratio()
    return float(max(spelt, SequenceMatcher(None, one_sorted, other_sorted).ratio()))
