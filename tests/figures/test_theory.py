import csv

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import log_softmax

from kappo.figures.theory import banks, numbers, optimum, sharpening
from kappo.study_file import Theory
from kappo.theory import sharpening as objectives
from kappo.theory import winrate
from tests.golden import records

SETTINGS = Theory(k=[1, 2, 4, 8], beta=[0.1, 5e-4], samples_per_prompt=30)
FIGURES = {
    optimum.adaptive_pressure: optimum.adaptive_pressure_rows,
    banks.optimal_success: banks.optimal_success_rows,
    banks.bank_error_binary: banks.bank_error_binary_rows,
    banks.bank_error_winrate: banks.bank_error_winrate_rows,
    sharpening.four_objectives: sharpening.four_objectives_rows,
}


@pytest.fixture(scope="module")
def stated():
    return numbers.numbers(SETTINGS)


def curve(rows, **which):
    """x -> y of the rows with these values."""
    return {r["x"]: r["y"] for r in rows if all(r[name] == value for name, value in which.items())}


def value(line, x):
    """The y at the x of the grid that is meant."""
    nearest = min(line, key=lambda at: abs(at - x))
    assert nearest == pytest.approx(x, abs=1e-9)
    return line[nearest]


def test_adaptive_pressure_golden():
    rows = optimum.adaptive_pressure_rows(Theory(k=[1, 2, 4, 8, 16]))
    binary = [r for r in records("theory_figures") if r[0]["panel"] == "a"]
    drawn = [(i, o) for i, o in binary if 0.005 <= i["p_ref"] <= 0.995 and 200 * i["p_ref"] % 1 < 1e-9]
    assert len(drawn) >= 20
    for inputs, want in drawn:
        found = value(curve(rows, panel="a", k=inputs["k"]), inputs["p_ref"])
        assert found == pytest.approx(want["beta_eff_over_beta"], rel=1e-9)
    named = [(i, o) for i, o in records("theory_figures") if i.get("label", "").startswith("figure1")]
    assert len(named) == 2
    for inputs, want in named:
        reference = f"{inputs['label'].split()[1]}: Beta({inputs['beta_a']}, {inputs['beta_b']})"
        beta_eff, score = (curve(rows, panel=panel, reference=reference) for panel in "bc")
        for r, s, b in list(zip(inputs["r"], want["S"], want["beta_eff"], strict=True))[1:]:
            assert value(score, r) == pytest.approx(s, rel=1e-7)
            assert value(beta_eff, r) == pytest.approx(b / optimum.BETA, rel=1e-7)


def test_optimal_success_solves_eq_6():
    rows = banks.optimal_success_rows(SETTINGS)
    assert len(curve(rows, panel="whole", drawn="dots", k=4, beta=0.1)) == 31
    for row in rows:
        x, p, k, beta = row["x"], row["y"], row["k"], row["beta"]
        q = 10**x if row["panel"] == "deep" else x
        if not (0 < q < 1 and 0.01 < p < 0.99):
            continue
        log_odds = x * np.log(10) - np.log1p(-q) if row["panel"] == "deep" else np.log(q / (1 - q))
        assert k * (1 - p) ** (k - 1) == pytest.approx(beta * (np.log(p / (1 - p)) - log_odds), rel=1e-8)


@pytest.mark.parametrize("beta", SETTINGS.beta)
def test_optimal_success_leaves_its_plateau_within_the_axis(beta):
    rows = banks.optimal_success_rows(SETTINGS)
    for k in SETTINGS.k:
        deep = curve(rows, panel="deep", k=k, beta=beta)
        assert deep[min(deep)] < 0.5 < deep[max(deep)]


def test_bank_errors_golden(monkeypatch):
    """At the golden records' q in place of the grid."""
    wanted = {"p*": "p_star", "a_k": "a_k", "beta_eff (relative)": "beta_eff_rel", "T / (T(1) - T(0))": "T"}
    checked = 0
    monkeypatch.setattr(banks, "POINTS", 3)
    golden = [(i, o) for i, o in records("sensitivity") if 0.005 < i["q"] < 0.995]
    for inputs, want in golden:
        logit = np.log(inputs["q"] / (1 - inputs["q"]))
        monkeypatch.setattr(banks, "EDGE", abs(logit) or 1e-12)
        ks = sorted({2, inputs["k"]})
        settings = Theory(k=ks, beta=[inputs["beta"]], samples_per_prompt=inputs["M"])
        rows = banks.bank_error_binary_rows(settings) + banks.bank_error_winrate_rows(settings)
        for name, key in wanted.items():
            for panel, kind in (("noise", "sigma"), ("bias", "bias")):
                found = value(curve(rows, y_is=name, panel=panel, k=inputs["k"]), inputs["q"])
                exact = want[f"T_{kind}_over_DeltaT" if key == "T" else f"{key}_{kind}"]
                assert found == pytest.approx(exact, rel=1e-7, abs=1e-10), (inputs, name, panel)
                checked += 1
    assert checked > 300


def test_transformation_golden():
    rows = banks.bank_error_winrate_rows(SETTINGS)
    for inputs, want in records("sensitivity"):
        if inputs["M"] == 30 and inputs["beta"] == 0.1:
            found = value(curve(rows, panel="transformation", k=inputs["k"], beta=0.1), inputs["q"])
            assert found == pytest.approx(want["T_minus_T0"] / want["Delta_T"], rel=1e-9)


@pytest.mark.parametrize("objective", ["tilted", "tempered"])
def test_objectives_golden(objective):
    found = [(i, o) for i, o in records("sharpening") if i["kind"] == f"{objective}_optimum"]
    assert len(found) > 10
    for inputs, want in found:
        prompt = sharpening.Prompt("", tuple(inputs["base_weights"]), tuple(inputs["rewards"]))
        pi = sharpening.optimum(objective, prompt, inputs["alpha"], inputs.get("beta", 1.0))
        np.testing.assert_allclose(pi, want["pi"], rtol=1e-12)
        assert pi @ np.array(prompt.rewards) == pytest.approx(want["expected_reward"], rel=1e-12, abs=1e-15)
        assert sharpening.entropy(pi) == pytest.approx(want["entropy"], rel=1e-11, abs=1e-13)


def test_objectives_without_kl_golden():
    for inputs, want in records("sharpening"):
        if inputs["kind"] == "no_kl_limits":
            prompt = sharpening.Prompt("", tuple(inputs["base_weights"]), tuple(inputs["rewards"]))
            task = sharpening.optimum("task reward", prompt, 1.0, 1.0)
            np.testing.assert_allclose(task, want["task_reward_limit_beta_to_0_alpha_1"], rtol=1e-12)
            sharp = sharpening.optimum("sharpening", prompt, 1.0, 1.0)
            np.testing.assert_allclose(sharp, want["tempered_limit_alpha_to_inf"], rtol=1e-12)


def test_objectives_drawn_are_maxima():
    prompt = sharpening.PROMPTS[1]
    base, rewards = prompt.log_base, np.array(prompt.rewards)
    rows = sharpening.four_objectives_rows(SETTINGS)
    mass = curve(rows, panel="mass", prompt=prompt.name, objective="tilted")
    direct = minimize(
        lambda z: -objectives.objective(log_softmax(z), base, rewards, sharpening.ALPHA, sharpening.BETA), 0 * base
    )
    np.testing.assert_allclose(list(mass.values()), np.exp(log_softmax(direct.x)), atol=1e-4)
    right = sum(mass[at] for at, reward in enumerate(rewards, start=1) if reward)
    easy = curve(rows, panel="mass", prompt="easy prompt", objective="tilted")
    mean = np.mean([1 - (1 - right) ** 4, 1 - (1 - easy[1] - easy[3]) ** 4])
    assert curve(rows, panel="pass@k", objective="tilted")[4] == pytest.approx(mean, rel=1e-12)


def test_objectives_say_what_the_paper_says():
    rows = sharpening.four_objectives_rows(SETTINGS)
    at = {name: curve(rows, panel="pass@k", objective=name) for name in sharpening.OBJECTIVES}
    assert at["base model"][1] < at["tempered"][1] < at["sharpening"][1] < at["tilted"][1] < at["task reward"][1]
    assert at["sharpening"][8] < at["tempered"][8] < at["base model"][8] < at["tilted"][8] < at["task reward"][8] + 1e-9
    for prompt in sharpening.PROMPTS:
        for alpha in sharpening.ALPHAS:
            line = curve(rows, panel="pass@1", prompt=prompt.name, alpha=alpha)
            assert sorted(line.values(), reverse=True) == [line[beta] for beta in sorted(line)]


def test_unknown_objective():
    with pytest.raises(ValueError, match="objective = 'sharper': expected one of base model, sharpening"):
        sharpening.optimum("sharper", sharpening.PROMPTS[0], 1.0, 1.0)


@pytest.mark.parametrize("draw", FIGURES, ids=lambda draw: draw.__name__)
def test_files(draw, tmp_path, monkeypatch):
    """The CSV holds every row to nine digits; rows that are computed again give the same bytes."""
    settings = Theory(k=[1, 4], beta=[5e-4], samples_per_prompt=10)
    first, rows = draw(settings, tmp_path / "a"), FIGURES[draw](settings)
    monkeypatch.setitem(draw.__globals__, FIGURES[draw].__name__, lambda _: rows)
    second = draw(settings, tmp_path / "b")
    assert [path.name for path in first] == [f"{draw.__name__}.{kind}" for kind in ("pdf", "png", "csv")]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    with open(first[-1], newline="") as handle:
        written = list(csv.DictReader(handle))
    assert len(written) == len(rows)
    for name in rows[0]:
        want = [row[name] for row in rows]
        if all(isinstance(value, float) for value in want):
            np.testing.assert_allclose([float(row[name]) for row in written], want, rtol=1e-8)
        else:
            assert [row[name] for row in written] == [f"{v:.9g}" if isinstance(v, float) else str(v) for v in want]


def test_one_completion(tmp_path):
    """A bank of one, at a single k and beta."""
    made = banks.bank_error_winrate(Theory(k=[3], beta=[2.0], samples_per_prompt=1), tmp_path)
    assert all(path.is_file() for path in made)


def test_numbers_agree(stated):
    """All stated numbers do, but for formulas used as they are misprinted."""
    for row in stated:
        if row["note"].startswith(numbers.MISPRINT):
            assert row["agrees"] is False, row
        else:
            assert row["agrees"] is (None if row["note"] == numbers.LOST else True), row
    papers = [row["paper"] for row in stated]
    assert {"0.553", "0.740", "0.042", "-0.028", "4.2 %", "5.0 %", "225,000"} <= set(papers)


def test_numbers_lost_and_misprinted(stated):
    """Beside independently computed ones."""
    ours = {(row["what"], row["where"]): row["ours"] for row in stated}
    golden = {i["q"]: o for i, o in records("sensitivity") if (i["k"], i["beta"], i["M"]) == (4, 0.1, 30)}
    for q in (0.5, 0.9, 0.99):
        noise = ours[f"noise of T / Delta_T, q={q:g}, k=4", "K.2, implications"]
        assert noise == pytest.approx(golden[q]["T_sigma_over_DeltaT"], rel=1e-9)
    assert ours["bias of p*, p_ref=.5, k=4", "K.1, implications"] == pytest.approx(golden[0.5]["p_star_bias"], rel=1e-8)
    for k in (2, 4, 8):
        for beta in SETTINGS.beta:
            found = ours[f"E[exp(S / beta)], k={k}, beta={beta:g}", "eq. 12 as printed"]
            tilt = (
                quad(lambda u, k=k, beta=beta: float(winrate.inverse_psi(u**k, 1.0, k, beta)), 0, 1, limit=300)[0]
                / beta
            )
            assert found == pytest.approx(np.exp(winrate.log_c(k, beta)) + tilt, rel=1e-6)
    assert ours["C, k=4", "algorithm 2 as printed"] == pytest.approx(0.98296, abs=5e-6)


@pytest.mark.parametrize(
    ("paper", "ours", "expected"),
    [
        ("0.553", 0.55349, True),
        ("0.553", 0.5536, False),
        ("-0.028", -0.0276, True),
        ("225,000", 225001.0, False),
        ("4.2 %", 4.16, True),
        ("<= 5 %", 5.0, True),
        ("<= 5 %", 5.1, False),
        ("< 1 %", 1.0, False),
        (">= 0", -0.1, False),
        ("", 3.0, None),
    ],
)
def test_agrees(paper, ours, expected):
    assert numbers.agrees(paper, ours) is expected


def test_agrees_refuses_words():
    with pytest.raises(ValueError, match="'about half' is no stated number"):
        numbers.agrees("about half", 0.5)


def test_printed(stated):
    lines = numbers.printed(stated).splitlines()
    assert len(lines) == len(stated) + 1
    start = lines[0].index("agrees")
    assert {line[start : start + 3].strip() for line in lines[1:]} == {"yes", "NO", "?"}
