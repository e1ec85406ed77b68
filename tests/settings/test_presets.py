"""Presets, the order of the sources, and hints for misspelled names."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.settings.test_settings import NEEDS, OTHER, OVERRIDES, toml, value_of, variable
from unsay.errors import ConfigurationError
from unsay.settings.presets import PRESETS, refuse_misspelt
from unsay.settings.presets import merged as merge_layers
from unsay.settings.settings import HOME, Context, Settings, context_of, load_settings

SOURCES = ("run", "argument", "preset", "environment", "file")
"""The strongest first."""

Read = Callable[..., Settings]


@pytest.fixture
def read_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Read:
    """Reads settings, with a value of one of them in each of some sources."""
    monkeypatch.chdir(tmp_path)

    def load(name: str, **values: Any) -> Settings:
        arguments = {**NEEDS.get(name, {})}
        if "file" in values:
            line = f"{name} = {toml(values['file'])}\n"
            (tmp_path / "unsay.toml").write_text(line, encoding="utf-8")
        if "environment" in values:
            monkeypatch.setenv(f"UNSAY_{name.upper()}", variable(values["environment"]))
        if "preset" in values:
            arguments |= {"preset": "p", "presets": {"p": {name: values["preset"]}}}
        if "argument" in values:
            arguments[name] = values["argument"]
        settings = load_settings(arguments)
        return settings.for_run(context_of({name: values["run"]})) if "run" in values else settings

    return load


def two_values(name: str) -> tuple[Any, Any]:
    """Two possible values of a setting, neither of them none."""
    first = OTHER[name]
    default = Settings.model_fields[name].default
    if default is not None:
        return first, as_json(default)
    if name == "preset":
        return first, "debugging"
    if isinstance(first, str):
        return first, f"{first}-b"
    return first, first / 2 if isinstance(first, float) else first + 1


def as_json(value: Any) -> Any:
    """A value as a source would have it."""
    return sorted(value) if isinstance(value, frozenset) else json.loads(json.dumps(value))


def pairs() -> Iterator[Any]:
    """Every setting with every two sources that can have it."""
    for name in OTHER:
        for stronger, weaker in combinations(SOURCES, 2):
            if stronger == "run" and name not in OVERRIDES:
                continue
            if "preset" in (stronger, weaker) and name in ("preset", "presets"):
                continue
            yield pytest.param(name, stronger, weaker, id=f"{name}: {stronger} over {weaker}")


@pytest.mark.sample(every=4)
@pytest.mark.parametrize(("name", "stronger", "weaker"), [*pairs()])
def test_the_stronger_source_wins_for_every_setting(
    name: str, stronger: str, weaker: str, read_settings: Read
) -> None:
    """A run's context, an argument, the preset, the environment, the file, for any values."""
    one, second = two_values(name)
    expected = [
        value_of(load_settings({name: v, **NEEDS.get(name, {})}), name) for v in (one, second)
    ]
    assert expected[0] != expected[1]

    values_seen = [
        value_of(read_settings(name, **{stronger: high, weaker: low}), name)
        for high, low in ((one, second), (second, one))
    ]

    assert [sorted(map(str, e)) if isinstance(e, list) else e for e in expected] == [
        sorted(map(str, e)) if isinstance(e, list) else e for e in values_seen
    ]


@pytest.mark.parametrize("index", range(len(SOURCES) + 1))
def test_a_source_counts_where_no_stronger_one_speaks(index: int, read_settings: Read) -> None:
    """All five at once, then without the strongest, and so on to the default."""
    values = {source: 100 + number for number, source in enumerate(SOURCES)}
    weaker = {source: values[source] for source in SOURCES[index:]}

    assert next(iter(weaker.values()), 20) == read_settings("recents", **weaker).recents


@pytest.mark.parametrize(
    ("preset", "values"),
    [
        (
            "chat",
            {"window_messages": 30, "agent_budget_tokens": 25_000, "primers": 2, "recents": 10},
        ),
        (
            "debugging",
            {"window_messages": 100, "agent_budget_tokens": 75_000, "primers": 5, "recents": 30},
        ),
        (
            "long_task",
            {"window_messages": 75, "task_budget_tokens": 300_000, "live_messages": 1_000},
        ),
    ],
)
def test_a_preset_sets_its_numbers_and_nothing_else(preset: str, values: dict[str, int]) -> None:
    """Named as an argument or by a run, it comes to the same."""
    plain = load_settings().model_dump()
    expected = {**plain, **values, "preset": preset}

    assert expected == load_settings({"preset": preset}).model_dump()
    assert expected == load_settings().for_run(Context(preset=preset)).model_dump()


@pytest.mark.parametrize("source", [source for source in SOURCES if source != "preset"])
def test_every_source_may_name_the_preset(source: str, read_settings: Read) -> None:
    """Wherever it is named, its values stand between the arguments and the environment."""
    settings = read_settings("preset", **{source: "chat"})

    assert ("chat", 10, 2) == (settings.preset, settings.recents, settings.primers)


def test_a_run_may_change_the_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    """The values of the one before are gone, and what stood under them is back."""
    monkeypatch.setenv("UNSAY_RECENTS", "77")
    settings = load_settings({"preset": "chat", "primers": 9})
    run = settings.for_run(Context(preset="long_task"))
    second_run = run.for_run(Context(preset="debugging", window_messages=60))

    assert [10, 77, 30] == [layer.recents for layer in (settings, run, second_run)]
    assert [9, 9, 9] == [layer.primers for layer in (settings, run, second_run)]
    assert [30, 75, 60] == [layer.window_messages for layer in (settings, run, second_run)]
    assert [25_000, None, 75_000] == [
        layer.agent_budget_tokens for layer in (settings, run, second_run)
    ]


def test_presets_may_be_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """New ones, and other values for some of unsay's."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "unsay.toml").write_text(
        "preset = 'research'\n[presets.research]\nrecents = 40\nlanguage = 'ja'\n"
        "[presets.debugging]\nwindow_messages = 75\n"
    )
    settings = load_settings()
    debugging = settings.for_run(Context(preset="debugging"))

    assert (40, "ja", 40) == (settings.recents, settings.language, settings.window_messages)
    assert (30, "auto", 75) == (debugging.recents, debugging.language, debugging.window_messages)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        pytest.param(
            {"preset": "debuging"},
            "There is no preset 'debuging' (did you mean 'debugging'?): write one of 'chat', "
            "'debugging', 'long_task', or add it under `presets`",
            id="a preset",
        ),
        pytest.param(
            {"preset": "mine", "presets": {"mein": {}}},
            "no preset 'mine' (did you mean 'mein'?): write one of 'chat', 'debugging', "
            "'long_task', 'mein'",
            id="a preset of the user's own",
        ),
        pytest.param(
            {"preset": "zzz"}, "There is no preset 'zzz': write one of 'chat'", id="no preset near"
        ),
        pytest.param(
            {"quality_treshold": 0.5},
            "quality_treshold: there is no such setting (did you mean 'quality_threshold'?)",
            id="a setting",
        ),
        pytest.param(
            {"budget_tokens_agent": 5},
            "budget_tokens_agent: there is no such setting (did you mean 'agent_budget_tokens'?)",
            id="the words in another order",
        ),
        pytest.param(
            {"primers_count": 5, "primers": 4},
            "'primers' has two values, 5 and 4, under different names: remove 'primers' or",
            id="two names",
        ),
        pytest.param(
            {"trigger_ratio": 0.3},
            "target_ratio 0.375 must be below trigger_ratio 0.3; lower the first",
            id="ratios",
        ),
        pytest.param(
            {"zzz": 5},
            "zzz: there is no such setting (`unsay settings` lists them)",
            id="no setting near",
        ),
        pytest.param(
            {"judging": "locl"},
            "judging: Input should be 'model', 'local' or 'off', got 'locl' (did you mean 'local'?)",
            id="a word",
        ),
        pytest.param(
            {"checkpoint_on": ["score", "ordr"]}, "(did you mean 'order'?)", id="a word in a list"
        ),
        pytest.param(
            {"budget_mode": 7},
            "budget_mode: Input should be 'hard', 'soft' or 'ask', got 7",
            id="no word",
        ),
        pytest.param(
            {"max_rollbacks": True},
            "max_rollbacks: true and false are not values of this setting, got True",
            id="a boolean for a number",
        ),
        pytest.param(
            {"session_budget_tokens": True},
            "session_budget_tokens: true and false are not values of this setting, got True",
            id="a boolean for a number or none",
        ),
        pytest.param(
            {"checkpoint_on": 7}, "checkpoint_on: Input should be a valid list, got 7", id="no list"
        ),
        pytest.param(
            {"prices": {"m": {"input": 1, "output": 1, "cached_read": 1}}},
            "(did you mean 'cache_read'?)",
            id="a kind of price",
        ),
        pytest.param(
            {"presets": {"p": {"recent": 4}}},
            "preset 'p' sets 'recent', which is no setting (did you mean 'recents'?)",
            id="a setting of a preset",
        ),
        pytest.param(
            {"presets": {"p": {"preset": "chat"}}},
            "preset 'p' sets 'preset', which is no setting",
            id="a preset in a preset",
        ),
        pytest.param(
            {"presets": {"p": {"recents": -1}}},
            "Preset 'p': These settings cannot be used: recents: Input should be greater",
            id="an impossible value in a preset that nobody has named yet",
        ),
        pytest.param({"presets": ["p"]}, "presets: Input should be a valid dict", id="no presets"),
        pytest.param(
            {"presets": {"p": 4}}, "presets.p: Input should be a valid dict", id="a number"
        ),
    ],
)
def test_what_is_nearly_right_is_refused_with_the_right_name(
    values: dict[str, Any], problem: str
) -> None:
    """Nothing unknown is ignored, and nothing is guessed either."""
    with pytest.raises(ConfigurationError, match=re.escape(problem)):
        load_settings(values)


def test_a_run_cannot_name_a_preset_that_is_not_there() -> None:
    """It does not begin."""
    with pytest.raises(ConfigurationError, match=r"no preset 'chatt' \(did you mean 'chat'\?\)"):
        load_settings().for_run(Context(preset="chatt"))


@pytest.mark.parametrize(
    ("name", "correction"),
    [
        ("UNSAY_MODLE", "UNSAY_MODEL"),
        ("unsay_modle", "UNSAY_MODEL"),
        ("UNSAY_QUALITY_TRESHOLD", "UNSAY_QUALITY_THRESHOLD"),
        ("UNSAY_HOMES", "UNSAY_HOME"),
    ],
)
def test_a_misspelt_variable_is_refused(
    name: str, correction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A budget that is not kept because of a letter is dear."""
    monkeypatch.setenv(name, "x")

    with pytest.raises(ConfigurationError, match=f"variable '{name}': did you mean '{correction}'"):
        load_settings()


@pytest.mark.parametrize(
    "name",
    [
        "UNSAY_HOME",
        "UNSAY_SERVICE_HOST",
        "UNSAY_SERVICE_PORT",
        "UNSAY_SERVICE_PORT_HTTP",
        "UNSAY_PORT",
        "UNSAY_PORT_8080_TCP",
        "UNSAY_PORT_8080_TCP_ADDR",
        "UNSAY_PORT_8080_TCP_PROTO",
        "UNSAY_VERSION",
        "UNSAY_IMAGE",
        "OTHER_MODLE",
    ],
)
def test_variables_of_others_are_left_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Orchestrators make variables of a service's name."""
    plain = load_settings()
    monkeypatch.setenv(name, "tcp://10.0.0.1:8080")

    assert plain.model_dump() == load_settings().model_dump()


def slips(name: str) -> Iterator[str]:
    """A name with a letter lost, doubled, changed, or swapped: the first, one amid, the last."""
    for index in {0, len(name) // 2, len(name) - 1}:
        letter = name[index]
        before = name[:index]
        after = name[index + 1 :]
        yield before + after
        yield before + letter + letter + after
        yield before + "#" + after
        yield before + after[:1] + letter + after[1:]


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("name", sorted(OTHER.keys() - {"presets", "quality_thresholds"}))
def test_one_slip_of_the_hand_is_seen_through(name: str) -> None:
    """Wherever in the name it is; only two names are themselves one slip from another."""
    names = [*OTHER, HOME]
    for slip in {*slips(name)} - {*names}:
        with pytest.raises(ConfigurationError, match=f"did you mean 'UNSAY_{name.upper()}'"):
            refuse_misspelt([f"UNSAY_{slip.upper()}"], names, prefix="UNSAY_")


def test_a_preset_names_settings_that_exist() -> None:
    """Each of unsay's presets with possible values."""
    assert {name for values in PRESETS.values() for name in values} <= OTHER.keys()


@pytest.mark.parametrize(
    ("lower", "upper", "result"),
    [
        pytest.param({}, {}, {}, id="nothing"),
        pytest.param({"primers": 1}, {"primers": 7}, {"primers": 7}, id="one over another"),
        pytest.param(
            {"preset": "chat", "recents": 1, "live_messages": 30},
            {"primers": 7},
            {**PRESETS["chat"], "preset": "chat", "live_messages": 30, "primers": 7},
            id="a preset between",
        ),
        pytest.param(
            {"preset": "chat", "recents": 1},
            {"preset": None},
            {"preset": None, "recents": 1},
            id="an argument takes the preset away",
        ),
    ],
)
def test_layers_lie_over_each_other(
    lower: Mapping[str, Any], upper: Mapping[str, Any], result: Mapping[str, Any]
) -> None:
    """The preset is between arguments and the sources below, from any source."""
    assert result == merge_layers(lower, upper)


SEEDS = {
    "hard_limit": (True, "budget_mode", "hard"),
    "require_approval": (True, "budget_mode", "ask"),
    "warning_threshold": (0.5, "budget_warning", 0.5),
    "should_truncate_results": (False, "truncate_results", False),
    "summarization_system_prompt": ("Keep numbers.", "summary_system_prompt", "Keep numbers."),
    "compression_trigger_ratio": (0.85, "trigger_ratio", 0.85),
    "compression_target_ratio": (0.25, "target_ratio", 0.25),
    "primers_count": (5, "primers", 5),
    "recents_count": (30, "recents", 30),
    "window_size": (60, "window_messages", 60),
    "token_budget_per_agent": (75_000, "agent_budget_tokens", 75_000),
    "token_budget_per_task": (300_000, "task_budget_tokens", 300_000),
}
"""Names that the articles use, with a value, and the setting that has it then."""


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("alias", SEEDS)
def test_every_source_reads_the_names_of_the_articles(
    alias: str, source: str, read_settings: Read
) -> None:
    """Environment, file, preset, argument and run accept another name of a setting."""
    value, name, expected = SEEDS[alias]
    assert expected == getattr(read_settings(alias, **{source: value}), name)


@pytest.mark.parametrize(
    ("flags", "mode"),
    [((True, True), "hard"), ((False, True), "ask"), ((False, False), "soft"), ((False,), "soft")],
)
def test_two_flags_are_the_mode_of_a_budget(flags: tuple[bool, ...], mode: str) -> None:
    """A hard limit comes before approval; without both a budget only warns."""
    flags_given = dict(zip(("hard_limit", "require_approval"), flags, strict=False))
    assert mode == load_settings(flags_given).budget_mode


def test_a_mode_and_a_flag_that_differ_are_refused() -> None:
    """Nothing is guessed."""
    with pytest.raises(ConfigurationError, match="remove one of them"):
        load_settings({"hard_limit": True, "budget_mode": "soft"})
    with pytest.raises(ConfigurationError, match="valid boolean"):
        load_settings({"hard_limit": "perhaps"})


@pytest.mark.parametrize("name", ["my-preset", "My-Preset", " my-preset ", "MY_PRESET"])
def test_a_preset_of_your_own_has_its_name_in_any_case(name: str) -> None:
    """With a hyphen or an underscore."""
    own_presets = {"my-preset": {"recents": 4}}
    assert 4 == load_settings({"preset": name, "presets": own_presets}).recents
