"""``fastdp account``: figures are the accountants', files are read and no more."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from fastdp._validate import float_up
from fastdp.accounting import (
    ApproximateAccountant,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    PLDAccountant,
    PoissonSampledEvent,
    PureAccountant,
    RDPAccountant,
    TCDPAccountant,
    ZCDPAccountant,
    amplification,
    events,
)
from fastdp.accounting.fdp import FDPAccountant, GDPAccountant
from fastdp.cli import _account_file, main

ACCOUNTANTS = {
    "privacy loss": PLDAccountant,
    "Gaussian": GDPAccountant,
    "trade-off": FDPAccountant,
    "Renyi": RDPAccountant,
    "zCDP": ZCDPAccountant,
    "tCDP": TCDPAccountant,
    "(epsilon, delta)": ApproximateAccountant,
    "pure": PureAccountant,
}

SGD = """
delta = 1e-5
[[events]]
type = "PoissonSampled"
sampling_probability = 0.01
count = 1_000
event = { type = "Gaussian", sensitivity = 1, sigma = 1 }
"""

MIXED = """
[[events]]
type = "DiscreteLaplace"
sensitivity = 1
scale = 20
count = 100

[[events]]
type = "DiscreteGaussianEvent"
sensitivity = 1
sigma = "10"
"""

#: The only kind of event with a field `count` of its own.
REPEATED = """
[[events]]
type = "SelfComposed"
count = 4
event = { type = "Laplace", sensitivity = 1, scale = 20 }
"""

GAUSSIANS = """
[[events]]
type = "Gaussian"
sensitivity = 2
sigma = 10
count = 5
"""

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return what writes a file and gives its name."""

    def to(text: str, name: str = "events.toml") -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return to


@pytest.fixture
def ask(write: Write, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Return what runs the command with --json and gives its answer."""

    def run(text: str, *options: str, name: str = "events.toml") -> Any:
        assert main(["account", write(text, name), "--json", *options]) == 0
        return json.loads(capsys.readouterr().out)

    return run


def bounds(answer: Any) -> dict[str, float]:
    return {r["notion"]: r["value"] for r in answer["readings"] if r["kind"] == "bound"}


# ---- readings ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            SGD,
            [
                (
                    PoissonSampledEvent(
                        Fraction(1, 100), GaussianEvent(sensitivity=1, sigma=1)
                    ),
                    1000,
                )
            ],
        ),
        (
            MIXED,
            [
                (DiscreteLaplaceEvent(sensitivity=1, scale=20), 100),
                (DiscreteGaussianEvent(sensitivity=1, sigma=10), 1),
            ],
        ),
        (GAUSSIANS, [(GaussianEvent(sensitivity=2, sigma=10), 5)]),
    ],
)
@pytest.mark.parametrize(("option", "value"), [("delta", "1e-6"), ("epsilon", "1/2")])
def test_every_figure_is_that_of_its_accountant(
    ask: Any, text: str, parts: list[Any], option: str, value: str
) -> None:
    answer = ask(text, f"--{option}", value)
    found = bounds(answer)
    assert list(found.values()) == sorted(found.values())
    refused = {r["notion"] for r in answer["readings"] if r["kind"] == "refused"}
    assert {*found, *refused} == set(ACCOUNTANTS)
    for name, make in ACCOUNTANTS.items():
        accountant: Any = make()
        if not all(accountant.supports(event) for event, _ in parts):
            assert name in refused
            continue
        for event, count in parts:
            accountant.compose(event, count)
        if option == "delta":
            assert found[name] == accountant.epsilon(Fraction(1, 10**6))
        else:
            assert found[name] == accountant.delta(Fraction(1, 2))


def test_brackets_say_what_they_are(ask: Any) -> None:
    readings = ask(SGD)["readings"]
    first = readings[0]
    assert first["notion"] == "privacy loss"
    assert 0 < first["lower"] <= first["value"] < first["lower"] * (1 + 1e-6)
    assert "between lower and upper" in first["what"]
    kinds = [r["kind"] for r in readings]
    assert kinds == sorted(kinds, key=["bound", "refused"].index)


def test_the_table(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["account", write(SGD), "--delta", "1e-6"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1,000 events, ADD_OR_REMOVE_ONE"
    assert lines[1] == "epsilon at delta 1e-06"
    step = PoissonSampledEvent(Fraction(1, 100), GaussianEvent(sensitivity=1, sigma=1))
    exact = PLDAccountant().compose(step, 1000).epsilon(Fraction(1, 10**6))
    name, shown, rest = re.split(r"\s{2,}", lines[2].strip(), maxsplit=2)
    assert (name, f"upper {exact!r}" in rest) == ("privacy loss", True)
    assert exact <= float(shown) < exact * (1 + 2e-9)
    assert sum(" refused: " in line for line in lines) == 5


def test_ten_digits_are_rounded_to_the_safe_side() -> None:
    from decimal import ROUND_CEILING, ROUND_FLOOR

    from fastdp.cli import account

    for value in (1 / 3, 2 / 3, 1e-300 / 7, 123456789.123456, 5e-324):
        assert float(account._shown(value, ROUND_CEILING)) >= value
        assert float(account._shown(value, ROUND_FLOOR)) <= value
    assert account._shown(0.5, ROUND_CEILING) == "0.5"


@pytest.mark.parametrize(("epsilon", "met"), [("2", True), ("1", False)])
def test_a_target_is_judged_by_bounds_alone(
    ask: Any, write: Write, capsys: pytest.CaptureFixture[str], epsilon: str, met: bool
) -> None:
    # At delta 1e-5 the truth is 1.828.
    text = f"epsilon = {epsilon}\n{SGD}"
    assert ask(text)["met"] is met
    main(["account", write(text)])
    last = capsys.readouterr().out.splitlines()[-1]
    verdict = "met" if met else "not proved by any notion"
    assert last == f"target epsilon {epsilon}: {verdict}"


def test_pure_privacy_is_asked_for_with_delta_zero(ask: Any) -> None:
    text = '[[events]]\ntype = "Laplace"\nsensitivity = 1\nscale = 10\ncount = 5\n'
    found = bounds(ask(text, "--delta", "0"))
    assert found["pure"] == found["(epsilon, delta)"] == 0.5


@pytest.mark.rest
def test_a_picture_imports_no_more_than_it_needs(write: Write, tmp_path: Path) -> None:
    # A second and a half is the aim; each of these costs a fifth of a second or more.
    heavy = ("scipy.interpolate", "scipy.stats", "matplotlib.pyplot", "pandas")
    line = ["account", write(SGD), "--plot", str(tmp_path / "a.png")]
    program = f"""
import sys
from fastdp.cli import main
assert main({line!r}) == 0
print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stderr == "[]\n"


# ---- files -------------------------------------------------------------------------


def test_toml_json_and_statements_say_the_same(ask: Any) -> None:
    listed = [
        {"type": "DiscreteLaplace", "sensitivity": 1, "scale": 20.0, "count": 100},
        {"type": "DiscreteGaussian", "sensitivity": "2/2", "sigma": 10},
    ]
    accountant = ZCDPAccountant().compose(
        DiscreteLaplaceEvent(sensitivity=1, scale=20), 100
    )
    accountant.compose(DiscreteGaussianEvent(sensitivity=1, sigma=10))
    statement = accountant.statement().to_json()
    expected = ask(MIXED, "--delta", "1e-6")
    for text in (json.dumps({"events": listed}), statement):
        assert ask(text, "--delta", "1e-6", name="x.json") == expected


def test_decimals_are_exact(ask: Any, write: Write) -> None:
    text = '[[events]]\ntype = "PureDP"\nepsilon = 0.1\ncount = 3\n'
    account, _ = _account_file.read(Path(write(text)))
    assert account.entries[0].event == events.PureDPEvent(Fraction(1, 10))
    assert bounds(ask(text, "--delta", "0"))["pure"] == float_up(Fraction(3, 10))
    text = json.dumps({"events": [{"type": "PureDP", "epsilon": 0.1}]})
    account, _ = _account_file.read(Path(write(text, "x.json")))
    assert account.entries[0].event == events.PureDPEvent(Fraction(1, 10))


def test_a_single_event_that_was_exported(ask: Any) -> None:
    event = events.SelfComposedEvent(LaplaceEvent(sensitivity=1, scale=20), 4)
    found = bounds(ask(event.to_json(), "--delta", "0", name="x.json"))
    assert found["pure"] == 0.2
    assert bounds(ask(REPEATED, "--delta", "0"))["pure"] == 0.2


def test_the_relation_of_the_file_is_that_of_events_without_their_own(
    write: Write,
) -> None:
    text = """
    neighboring_relation = "replace_one"
    [[events]]
    type = "GroupEvent"
    size = 2
    event = { type = "Laplace", sensitivity = 1, scale = 3 }
    [[events]]
    type = "Composed"
    events = [
      { type = "PureDP", epsilon = 1, neighboring_relation = "ADD_OR_REMOVE_ONE" },
    ]
    """
    account, _ = _account_file.read(Path(write(text)))
    replace = NeighboringRelation.REPLACE_ONE
    first = events.GroupEvent(
        LaplaceEvent(sensitivity=1, scale=3, neighboring_relation=replace), 2
    )
    second = events.ComposedEvent((events.PureDPEvent(1),))
    assert [entry.event for entry in account.entries] == [first, second]


def test_every_kind_of_event_can_be_read() -> None:
    kinds = {f"{k}Event" for k in _account_file._KINDS if not k.endswith("Event")}
    assert kinds == {n for n in events.__all__ if n.endswith("Event")} - {"Event"}


LAPLACE = '[[events]]\ntype = "Laplace"\nsensitivity = 1\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "events must be a list"),
        ("events = 3", "events must be a list"),
        ("events = [3]", "event 1 must be a table, got int"),
        ("a = 1\nevents = []", "'a' is not a field of FILE"),
        ("[[events]]\nsigma = 1", "event 1: type must be one of ApproximateDP, "),
        ('[[events]]\ntype = "os.system"', "event 1: type must be one of"),
        (LAPLACE, "event 1: LaplaceEvent must have scale"),
        (LAPLACE + "scale = 0", "event 1: scale must be finite and > 0, got"),
        (LAPLACE + "scale = -1", "event 1: scale must be finite and > 0, got"),
        (LAPLACE + "scale = nan", "event 1: scale must be"),
        (LAPLACE + "scale = inf", "event 1: scale must be"),
        (LAPLACE + "scale = true", "event 1: scale must be"),
        (LAPLACE + "scale = [1]", "event 1: scale must be"),
        (LAPLACE + 'scale = "1/0"', "event 1: scale must be a number"),
        (LAPLACE + 'scale = "2*3"', "event 1: scale must be a number"),
        (LAPLACE + "scale = 1e99999999", "event 1: scale must have at most"),
        (
            LAPLACE + "scale = 1\nsigma = 1",
            "event 1: 'sigma' is not a field of Laplace",
        ),
        (LAPLACE + "scale = 1\ncount = 0", "event 1: count must be"),
        (LAPLACE + "scale = 1\ncount = 1.5", "event 1: count must be"),
        (
            LAPLACE + 'scale = 1\nneighboring_relation = "x"',
            "event 1: neighboring_relation must be one of ADD_OR_REMOVE_ONE",
        ),
        (LAPLACE + "scale = 1\n" + LAPLACE, "event 2: LaplaceEvent must have scale"),
        ('[[events]]\ntype = "Group"\nsize = 2\nevent = 1', "event 1: event must be"),
        (
            '[[events]]\ntype = "RDP"\norders = 2\nepsilons = [1]',
            "event 1: orders must be a list, got int",
        ),
        ("x = = 1", "FILE must be valid TOML (at line 1, column 5)"),
        ("secret words", "FILE must be valid TOML (at line 1, column 8)"),
        (LAPLACE + "scale = 1", "--delta or --epsilon must be given"),
        ("delta = 1\n" + LAPLACE + "scale = 1", "delta must be"),
        ("epsilon = -1\n" + LAPLACE + "scale = 1", "epsilon must be"),
        ("event = " + "[" * 5000, "FILE must be valid TOML|nested too deeply"),
    ],
)
def test_a_bad_file_is_one_line_that_names_the_rule(
    write: Write, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    assert main(["account", write(text)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("fastdp: ")
    assert err.count("\n") == 1
    assert any(part in err for part in message.split("|"))
    assert "secret" not in err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "FILE must be valid JSON (at line 1, column 2)"),
        ("[]", "FILE must be a table, got list"),
        ('{"delta": NaN}', "numbers must be finite, got NaN"),
        ('{"delta": 1, "delta": 2}', "'delta' must be given only once"),
        ('{"delta": ' + "9" * 5000 + "}", "a number is too long"),
        ('{"format": "fastdp statement"}', "text must be a JSON object"),
        ("[" * 100_000, "FILE is nested too deeply"),
        (
            '{"events": [{"count": 1, "event": {"type": "PureDP"}}]}',
            "event 1: PureDPEvent must have epsilon",
        ),
    ],
)
def test_a_bad_json_file(
    write: Write, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    assert main(["account", write(text, "x.json"), "--delta", "1e-6"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err


def test_files_that_are_not_there_too_long_or_of_another_kind(
    tmp_path: Path, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["account", str(tmp_path / "no.toml"), "--delta", "0"]) == 6
    assert "cannot read" in capsys.readouterr().err
    assert main(["account", write("#" * (2**20 + 1)), "--delta", "0"]) == 6
    assert "at most 1048576 bytes" in capsys.readouterr().err
    assert main(["account", write(SGD, "x.py")]) == 2
    assert "FILE must end in .toml or .json" in capsys.readouterr().err


EXTREMES = ["1e400", "1e-400", "1e300", "1e60", "1e-60", "1", "0"]


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("Gaussian", ("sensitivity", "sigma")),
        ("DiscreteGaussian", ("sensitivity", "sigma")),
        ("Laplace", ("sensitivity", "scale")),
        ("DiscreteLaplace", ("sensitivity", "scale")),
        ("ApproximateDP", ("epsilon", "delta")),
        ("PureDP", ("epsilon",)),
        ("ZCDP", ("rho",)),
        ("GaussianDP", ("mu",)),
    ],
)
@pytest.mark.parametrize("first", EXTREMES)
@pytest.mark.parametrize("second", EXTREMES)
def test_no_number_ends_in_an_internal_error(
    write: Write,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    names: tuple[str, ...],
    first: str,
    second: str,
) -> None:
    for count in (1, 10**18):
        event = ", ".join(
            f'"{n}": {v}' for n, v in zip(names, (first, second), strict=False)
        )
        text = f'{{"events": [{{"type": "{kind}", {event}, "count": {count}}}]}}'
        main(["account", write(text, "e.json"), "--delta", "1e-6"])
        assert "internal" not in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--delta", "--epsilon"])
@pytest.mark.parametrize("value", EXTREMES)
def test_no_question_ends_in_an_internal_error(
    write: Write, capsys: pytest.CaptureFixture[str], option: str, value: str
) -> None:
    main(["account", write(MIXED), option, value])
    assert "internal" not in capsys.readouterr().err


def test_numbers_beyond_what_can_be_computed_with(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    event = '{"type": "Gaussian", "sensitivity": 1, "sigma": V}'
    text = f'{{"delta": 1e-6, "events": [{event}]}}'
    for value in ("1e400", "1e-400", '"1e61"', '"1/' + "9" * 90 + '"'):
        assert main(["account", write(text.replace("V", value), "e.json")]) == 2
        error = capsys.readouterr().err
        assert error == "fastdp: event 1: sigma must be 0 or in [1e-60, 1e+60]\n"


@pytest.mark.alone
@pytest.mark.parametrize(
    "key",
    [
        "[" + "a." * 200_000 + "a]",
        "'a' . " * 80_000 + "a = 1",
        "x={" + "a." * 9 + "a=1}",
    ],
)
def test_a_key_of_many_parts_is_refused_at_once(
    write: Write, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    # The parser's time grows with the square of the parts: 2.7 s for 100 kB, of 400.
    started = time.process_time()
    assert main(["account", write(key + "\n" + MIXED), "--delta", "1e-6"]) == 2
    assert time.process_time() - started < 1
    assert "keys of at most 8 parts" in capsys.readouterr().err


def test_relations_that_do_not_mix_are_refused_by_every_notion(ask: Any) -> None:
    text = MIXED + 'neighboring_relation = "REPLACE_ONE"\n'
    readings = ask(text, "--delta", "1e-6")["readings"]
    assert {r["kind"] for r in readings} == {"refused"}
    reasons = {r["notion"]: r["what"] for r in readings}
    for name in ("Renyi", "zCDP", "tCDP"):
        assert reasons[name].startswith("neighboring_relation must be")


# ---- solving -----------------------------------------------------------------------


def test_what_is_solved_for_meets_the_target_and_no_more(ask: Any) -> None:
    answer = ask(MIXED, "--delta", "1e-6", "--solve", "scale", "--to", "2")
    found = bounds(answer)
    assert answer["asked"] == "scale"
    assert list(found) == ["privacy loss", "Renyi", "zCDP", "tCDP"]
    for name, scale in found.items():
        for factor, met in ((1, True), (1 - 1e-6, False)):
            accountant: Any = ACCOUNTANTS[name]()
            accountant.compose(
                DiscreteLaplaceEvent(sensitivity=1, scale=scale * factor), 100
            )
            accountant.compose(DiscreteGaussianEvent(sensitivity=1, sigma=10))
            assert (accountant.log_delta(2) <= math.log(1e-6)) is met


def test_counts_take_the_other_events_into_account(ask: Any) -> None:
    options = ["--delta", "1e-6", "--solve", "1.count", "--to", "2"]
    found = bounds(ask(MIXED, *options))
    for name, count in found.items():
        for more, met in ((0, True), (1, False)):
            accountant: Any = ACCOUNTANTS[name]()
            accountant.compose(
                DiscreteLaplaceEvent(sensitivity=1, scale=20), int(count) + more
            )
            accountant.compose(DiscreteGaussianEvent(sensitivity=1, sigma=10))
            assert (accountant.epsilon(Fraction(1, 10**6)) <= 2) is met
    assert set(found) == {"privacy loss", "Renyi", "zCDP", "tCDP"}
    refused = ask(MIXED, *options[:-1], "0.01")["readings"]
    assert {r["kind"] for r in refused} == {"refused"}
    assert any("alone exceed the target" in r["what"] for r in refused)


def test_a_rate_within_a_nested_event_and_a_target_in_delta(ask: Any) -> None:
    text = """
    epsilon = 1
    [[events]]
    type = "PoissonSampled"
    event = { type = "PureDP", epsilon = 2 }
    """
    options = ["--solve", "sampling_probability", "--epsilon", "1/2", "--to", "0"]
    # ln(1 + q (e^2 - 1)) = 1/2
    found = bounds(ask(text, *options))
    assert found["pure"] == pytest.approx(0.6487212707 / 6.3890560989, rel=1e-9)
    options = ["--solve", "1.epsilon", "--epsilon", "1/2", "--to", "0"]
    both = text.replace("type", "sampling_probability = 1\ntype", 1)
    assert bounds(ask(both, *options))["pure"] == pytest.approx(0.5, rel=1e-12)


def test_a_solution_in_gaussian_noise_under_all_that_know_it(ask: Any) -> None:
    options = ["--delta", "1e-6", "--solve", "sigma", "--to", "1"]
    found = bounds(ask(GAUSSIANS, *options))
    assert list(found)[:2] in (
        ["Gaussian", "privacy loss"],
        ["privacy loss", "Gaussian"],
    )
    assert found["Gaussian"] == pytest.approx(found["privacy loss"], rel=1e-9)
    assert found["Gaussian"] < found["Renyi"] <= found["zCDP"]
    accountant = GDPAccountant().compose(
        GaussianEvent(sensitivity=2, sigma=found["Gaussian"]), 5
    )
    assert 1 - 1e-9 < accountant.epsilon(Fraction(1, 10**6)) <= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--solve", "sensitivity", "--to", "1"], "--solve must be one of sigma, "),
        (["--solve", "mu", "--to", "1"], "--solve must be a field of an event"),
        (["--solve", "count", "--to", "1"], "of one event only (try N.NAME)"),
        (["--solve", "3.count", "--to", "1"], "one of the 2 events"),
        (["--solve", "x.count", "--to", "1"], "--solve must be NAME or N.NAME"),
        (["--solve", "1.count"], "--solve needs a target"),
        (["--to", "1"], "--to needs --solve"),
        (["--solve", "1.count", "--to", "x"], "--to must be a number"),
        (["--solve", "1.count", "--to", "-1"], "epsilon must be"),
        (["--epsilon", "1"], "not allowed with argument"),
        (["--plot", "x.gif"], "--plot must end in"),
        (["--plot", "x.svg", "--solve", "scale", "--to", "1"], "--plot must not"),
        (["--check", "--solve", "scale", "--to", "1"], "--check must not"),
    ],
)
def test_bad_options(
    write: Write, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["account", write(MIXED), "--delta", "1e-6", *options]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err


# ---- amplification -----------------------------------------------------------------

SHUFFLED = """
neighboring_relation = "replace_one"
[[events]]
type = "Shuffled"
local_epsilon = "1/2"
clients = 10_000
categories = 2
points = 12
count = 3

[[events]]
type = "NoisySGD"
records = 1000
passes = 1
sigma = 2
step_size = 0.1
lipschitz = 1
smoothness = 1
last_iterate_only = true
"""


def test_shuffled_reports_and_noisy_iterations_are_those_of_the_functions(
    ask: Any, write: Write
) -> None:
    replace = NeighboringRelation.REPLACE_ONE
    shuffled = amplification.shuffled_event(
        local_epsilon=0.5, clients=10_000, categories=2, points=12
    )
    last = amplification.noisy_sgd(
        1000,
        sigma=2,
        step_size=Fraction(1, 10),
        lipschitz=1,
        smoothness=1,
        last_iterate_only=True,
        passes=1,
    )
    account, _ = _account_file.read(Path(write(SHUFFLED)))
    assert [(e.event, e.count) for e in account.entries] == [(shuffled, 3), (last, 1)]
    assert account.relation is replace
    answer = ask(SHUFFLED, "--delta", "1e-6")
    accountant = PLDAccountant().compose(shuffled, 3).compose(last)
    assert bounds(answer)["privacy loss"] == accountant.epsilon(Fraction(1, 10**6))
    reasons = [r["what"] for r in answer["readings"] if r["kind"] == "refused"]
    assert max(map(len, reasons)) < 300


@pytest.mark.rest
def test_iterations_with_lists_and_what_is_solved_for_in_them(ask: Any) -> None:
    text = """
    [[events]]
    type = "ContractiveIteration"
    shifts = [1, "1/2", 0]
    sigmas = [3, 3, 3]
    last_iterate_only = true
    neighboring_relation = "ADD_OR_REMOVE_ONE"
    """
    event = amplification.contractive_iteration(
        shifts=[1, Fraction(1, 2), 0],
        sigmas=[3, 3, 3],
        last_iterate_only=True,
        neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
    )
    found = bounds(ask(text, "--delta", "1e-6"))
    assert found["Gaussian"] == GDPAccountant().compose(event).epsilon(
        Fraction(1, 10**6)
    )
    options = ["--delta", "1e-6", "--solve", "2.sigma", "--to", "2"]
    solved = bounds(ask(SHUFFLED, *options))
    assert list(solved) == ["privacy loss", "Renyi"]
    options[3:] = ["local_epsilon", "--to", "6"]
    largest = bounds(ask(SHUFFLED, *options))["privacy loss"]
    made = amplification.shuffled_event(
        local_epsilon=largest, clients=10_000, categories=2, points=12
    )
    accountant = PLDAccountant().compose(made, 3)
    last = amplification.noisy_sgd(
        1000,
        sigma=2,
        step_size=Fraction(1, 10),
        lipschitz=1,
        smoothness=1,
        last_iterate_only=True,
        passes=1,
    )
    assert 5.99 < accountant.compose(last).epsilon(Fraction(1, 10**6)) <= 6


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("clients = 10_000", "clients = 0", "event 1: clients must be"),
        (
            "clients = 10_000",
            "people = 9",
            "event 1: 'people' is not a field of Shuffled",
        ),
        ("clients = 10_000", "", "event 1: Shuffled must have clients"),
        ('"1/2"', "400", "event 1: local_epsilon must be"),
        ("= true", "= false", "event 2: last_iterate_only must be True"),
        ("smoothness = 1", "smoothness = 100", "event 2: step_size must be <="),
        ('"replace_one"', '"replace_special"', "must be REPLACE_ONE for Shuffled"),
        ("NoisySGD", "ContractiveIteration", "event 2: 'records' is not a field"),
    ],
)
def test_a_condition_that_is_not_met_is_named(
    write: Write,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    message: str,
) -> None:
    assert old in SHUFFLED
    text = SHUFFLED.replace(old, new, 1)
    assert main(["account", write(text), "--delta", "1e-6"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err


def test_an_exported_distribution_is_read(ask: Any) -> None:
    step = PoissonSampledEvent(Fraction(1, 100), GaussianEvent(sensitivity=1, sigma=1))
    made = PLDAccountant().compose(step, 10_000)
    law = made.distribution(interval=0.05)
    readings = ask(law.to_json(), "--delta", "1e-6", name="x.json")["readings"]
    found = {r["notion"]: r["value"] for r in readings if r["kind"] == "bound"}
    least = made.epsilon_bounds(Fraction(1, 10**6)).lower
    assert least <= found["privacy loss"] <= least + 0.05


def test_a_second_method_is_named(ask: Any) -> None:
    first = ask(GAUSSIANS, "--delta", "1e-6", "--check")["readings"]
    exact = next(r for r in first if r["notion"] == "privacy loss")
    assert "closed form, checked by contour" in exact["what"]
    assert exact["lower"] <= exact["value"]


# ---- pictures ----------------------------------------------------------------------


@pytest.mark.parametrize("text", [GAUSSIANS, MIXED], ids=["one event", "two"])
def test_a_picture_is_written(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    pytest.importorskip("matplotlib")
    target = tmp_path / "x.svg"
    options = ["--delta", "1e-6", "--plot", str(target)]
    assert main(["account", write(text), *options]) == 0
    assert target.read_text().startswith("<?xml")
    assert "epsilon at delta" in capsys.readouterr().out


def test_without_matplotlib_the_extra_is_named(
    write: Write,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["account", write(SGD), "--plot", "x.png"]) == 1
    assert 'pip install "fastdp[plot]"' in capsys.readouterr().err
