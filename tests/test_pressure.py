import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import quad
from scipy.optimize import brentq

from kappo.pressure.base import Rows
from kappo.pressure.binary import Binary
from kappo.pressure.none import NoPressure
from kappo.pressure.raw_reward import RawReward
from kappo.pressure.winrate import WinRate
from kappo.theory import ties, winrate
from tests.golden import records

settings = {"k": st.integers(1, 64), "beta": st.floats(-3, 1).map(lambda e: 10.0**e)}


def staircase(total):
    """Banks with 0 .. M successes."""
    return (np.arange(total) < np.arange(total + 1)[:, None]).astype(float)


def column(table, name):
    return np.array([row[name] for row in table])


@pytest.mark.parametrize(("method", "interface"), [("A*PO", "reward"), ("DPO", "regularization")])
def test_golden_algorithm_1(method, interface):
    tables = [(i, o["table"]) for i, o in records("algorithm1") if i["method"] == method]
    assert len(tables) > 20
    for inputs, table in tables:
        pressure, total = Binary(inputs["k"], inputs["beta"]), inputs["M"]
        rows = pressure.fit(staircase(total), interface)
        rtol = 1e-12 + 4e-15 * inputs["k"]
        np.testing.assert_array_equal(rows.successes, np.arange(total + 1))
        np.testing.assert_allclose(rows.q, column(table, "q"), rtol=1e-15)
        np.testing.assert_allclose(rows.p_star, column(table, "p_star"), rtol=rtol)
        np.testing.assert_allclose(rows.a, column(table, "a"), rtol=rtol, atol=1e-290)
        if interface == "regularization":
            np.testing.assert_allclose(rows.beta_eff, column(table, "b"), rtol=rtol)
            continue
        right = pressure.adapt(np.ones((total + 1, 1)), rows, interface)
        wrong = pressure.adapt(np.zeros((total + 1, 1)), rows, interface)
        targets = [(a.scale * a.reward - a.beta * a.log_partition)[:, 0] for a in (right, wrong)]
        np.testing.assert_allclose(targets[0], column(table, "target_R1"), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(targets[1], column(table, "target_R0"), rtol=1e-12, atol=1e-15)


def test_order_of_completions_does_not_matter():
    bank = np.array([[1, 0, 0, 1], [0, 1, 1, 0]], dtype=float)
    rows = Binary(4, 0.1).fit(bank)
    assert rows.a[0] == rows.a[1]
    np.testing.assert_array_equal(rows.rewards, bank)


@given(**settings)
def test_both_sides_agree_before_the_cap(k, beta):
    bank = staircase(20)
    reward, other = Binary(k, beta).fit(bank, "reward"), Binary(k, beta).fit(bank, "regularization")
    np.testing.assert_allclose(reward.a / beta, 1 / reward.beta_eff, rtol=1e-12)
    below = other.beta_eff < 2
    np.testing.assert_allclose((other.a / beta)[below], 1 / other.beta_eff[below], rtol=1e-12)
    assert (other.a[~below] / beta <= 0.5 * (1 + 1e-12)).all()
    assert (other.beta_eff <= 2).all()


@pytest.mark.parametrize("interface", ["reward", "regularization"])
def test_no_pressure_is_binary_at_k1(interface):
    bank, rollouts = staircase(7), np.eye(8)
    none, one = NoPressure(0.3), Binary(1, 0.3)
    rows, want = none.fit(bank, interface), one.fit(bank, interface)
    for name, value in vars(want).items():
        np.testing.assert_array_equal(vars(rows)[name], value)
    np.testing.assert_allclose(rows.a, 1, rtol=1e-15)
    adapted, expected = none.adapt(rollouts, rows, interface), one.adapt(rollouts, want, interface)
    for name, value in vars(expected).items():
        np.testing.assert_array_equal(vars(adapted)[name], value)


@pytest.mark.parametrize("value", [0.5, 2.0, -1.0])
def test_other_rewards_are_refused_by_place(value):
    bank = staircase(5)
    bank[3, 1] = value
    with pytest.raises(ValueError, match=f"reward {value} of prompt 3, completion 1"):
        Binary(2, 0.1).fit(bank)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("pressure", [Binary(2, 0.1), NoPressure(0.1), WinRate(2, 0.1)])
def test_rewards_must_be_finite(pressure, value):
    bank = staircase(5)
    bank[3, 1] = value
    with pytest.raises(ValueError, match=f"reward {value} of prompt 3, completion 1"):
        pressure.fit(bank)


@pytest.mark.parametrize("shape", [(3,), (3, 0), (3, 2, 2)])
@pytest.mark.parametrize("pressure", [Binary(2, 0.1), NoPressure(0.1), WinRate(2, 0.1)])
def test_bank_must_be_prompts_by_completions(pressure, shape):
    with pytest.raises(ValueError, match="expected \\(prompts, completions\\)"):
        pressure.fit(np.zeros(shape))


def test_adapt_reward_side():
    pressure = Binary(2, 0.5)
    rows = pressure.fit(np.array([[1, 0, 0, 0, 0, 0, 0, 0, 0, 0]], dtype=float))
    adapted = pressure.adapt(np.array([[1.0, 0.0, 1.0]]), rows)
    a = 2 * (1 - 0.475357)
    np.testing.assert_allclose(adapted.scale * adapted.reward, [[a, 0, a]], atol=2e-6)
    np.testing.assert_array_equal(adapted.beta, np.full((1, 3), 0.5))
    np.testing.assert_allclose(adapted.log_partition, np.full((1, 3), np.log(0.9 + 0.1 * np.exp(a / 0.5))), atol=1e-5)


def test_adapt_regularisation_side():
    pressure = Binary(4, 0.1)
    rows = pressure.fit(staircase(4), "regularization")
    rewards = np.arange(10.0).reshape(5, 2) % 2
    adapted = pressure.adapt(rewards, rows, "regularization")
    np.testing.assert_array_equal(adapted.scale * adapted.reward, rewards)
    np.testing.assert_array_equal(adapted.beta, np.repeat(rows.beta_eff[:, None], 2, axis=1))
    assert {value.shape for value in vars(adapted).values()} == {(5, 2)}


def test_take_selects_every_column():
    rows = Binary(4, 0.1).fit(staircase(6))
    taken = rows.take(np.array([5, 2, 2]))
    assert isinstance(taken, Rows)
    for name, value in vars(rows).items():
        np.testing.assert_array_equal(vars(taken)[name], value[[5, 2, 2]])


@given(arrays(float, (3, 6), elements=st.floats(-2, 2)), st.floats(0.02, 10))
def test_no_pressure_tilts_any_rewards(bank, beta):
    rows = NoPressure(beta).fit(bank)
    tilted = np.exp(bank / beta)
    np.testing.assert_allclose(rows.log_z, np.log(tilted.mean(axis=1)), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(rows.p_star, (tilted * bank).mean(axis=1) / tilted.mean(axis=1), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose([rows.a, rows.beta_eff], [np.ones(3), np.full(3, beta)], rtol=1e-14)
    np.testing.assert_array_equal(rows.q, bank.mean(axis=1))
    adapted = NoPressure(beta).adapt(bank[:, :2], rows)
    np.testing.assert_array_equal(adapted.scale * adapted.reward, bank[:, :2])
    np.testing.assert_array_equal(adapted.log_partition, np.repeat(rows.log_z[:, None], 2, axis=1))


def test_no_pressure_is_continuous_at_binary_rewards():
    bank = staircase(6)
    near = bank.copy()
    near[:, 0] += 1e-9
    for name, value in vars(NoPressure(0.1).fit(bank)).items():
        if name != "successes":
            np.testing.assert_allclose(vars(NoPressure(0.1).fit(near))[name], value, rtol=1e-7, atol=1e-7, err_msg=name)


def test_no_pressure_survives_strong_tilts():
    rows = NoPressure(1e-6).fit(np.array([[0.25, 0.5, 0.75], [-1.0, -1.0, -1.0]]))
    np.testing.assert_allclose(rows.log_z, [0.75e6 - np.log(3), -1e6], rtol=1e-12)
    np.testing.assert_allclose(rows.p_star, [0.75, -1], rtol=1e-12)


def algorithm_2(bank, online, k, beta, ties):
    """Line by line: F(r) = share of the bank at or below r, then T at that share; half weight to equals for midrank."""
    found = np.empty(online.shape)
    for x, rewards in enumerate(online):
        for i, r in enumerate(rewards):
            below, equal = sum(b < r for b in bank[x]), sum(b == r for b in bank[x])
            count = below + (equal if ties == "inclusive" else equal / 2)
            found[x, i] = winrate.transform(count, bank.shape[1], k, beta)
    return found


@pytest.mark.parametrize("ties", ["inclusive", "midrank"])
@given(
    bank=arrays(float, (2, 5), elements=st.integers(0, 4)),
    online=arrays(float, (2, 7), elements=st.integers(-2, 10).map(lambda n: n / 2)),
    k=st.integers(1, 8),
    beta=st.floats(0.01, 2),
)
def test_win_rate_is_algorithm_2(ties, bank, online, k, beta):
    pressure = WinRate(k, beta, ties)
    rows = pressure.fit(bank)
    adapted = pressure.adapt(online, rows)
    np.testing.assert_allclose(adapted.reward, algorithm_2(bank, online, k, beta, ties), rtol=1e-12, atol=1e-13)
    weights = np.exp(algorithm_2(bank, bank, k, beta, ties) / beta)
    want = (weights * bank).sum(axis=1) / weights.sum(axis=1)
    np.testing.assert_allclose(rows.p_star, want, rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(rows.log_z, 0)
    np.testing.assert_array_equal(
        [adapted.scale, adapted.beta, adapted.log_partition], [np.ones((2, 7)), np.full((2, 7), beta), np.zeros((2, 7))]
    )


def test_win_rate_ends():
    pressure, t = WinRate(4, 0.1), winrate.table(4, 4, 0.1)
    rows = pressure.fit(np.array([[0.1, 0.2, 0.3, 0.4], [0.5, 0.5, 0.5, 0.5]]))
    got = pressure.adapt(np.array([[0.0, 0.25, 0.4, 9.0], [0.4, 0.5, 0.6, 1.0]]), rows).reward
    np.testing.assert_allclose(got, [t[[0, 2, 4, 4]], t[[0, 4, 4, 4]]], rtol=1e-13)


@given(scale=st.floats(0.1, 10), shift=st.floats(-5, 5), ties=st.sampled_from(["inclusive", "midrank"]))
def test_win_rate_sees_ranks_only(scale, shift, ties):
    bank, online = np.array([[0.0, 0.25, 0.25, 1.0]]), np.array([[-1.0, 0.0, 0.25, 0.5, 1.0]])
    pressure = WinRate(3, 0.2, ties)
    want = pressure.adapt(online, pressure.fit(bank)).reward
    got = pressure.adapt(scale * online + shift, pressure.fit(scale * bank[:, ::-1] + shift)).reward
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("successes", "inclusive", "midrank"), [(1, 0.091, 0.241), (15, 0.294, 0.0485), (29, 0.302, 0.010)]
)
def test_win_rate_of_two_levels(successes, inclusive, midrank):
    bank = np.arange(30)[None] < successes
    for k, how, want in ((4, "inclusive", inclusive), (4, "midrank", midrank), (1, "midrank", 0.5)):
        pressure = WinRate(k, 0.1, how)
        wrong, right = pressure.adapt(np.array([[0.0, 1.0]]), pressure.fit(bank.astype(float))).reward[0]
        assert right - wrong == pytest.approx(want, abs=5e-4 if k > 1 else 1e-13)


def test_win_rate_has_no_regularisation_side():
    with pytest.raises(ValueError, match="no regularisation side"):
        WinRate(2, 0.1).fit(staircase(3), "regularization")


def optimum(p, k, beta):
    """a_k by root finding on eq. 6, in log(a / beta)."""
    ref = np.log(p) - np.log1p(-p)

    def excess(t):
        return t + np.log(beta / k) + (k - 1) * np.logaddexp(0, ref + np.exp(t))

    return beta * np.exp(brentq(excess, -1000, np.log(k / beta) + 1e-9, xtol=1e-12))


@pytest.mark.parametrize(("k", "beta", "total"), [(4, 0.1, 30), (2, 0.5, 8), (8, 0.02, 100), (4, 5e-4, 30)])
def test_posterior_is_the_mean_coefficient_under_jeffreys_prior(k, beta, total):
    """With p = s^2 the density p^(-1/2) (1-p)^(M-1/2) dp loses its pole."""

    def density(s):
        return 2 * (1 - s * s) ** (total - 0.5)

    mass, _ = quad(density, 0, 1)
    weighted, _ = quad(lambda s: density(s) * optimum(s * s, k, beta), 1e-12, 1 - 1e-9, limit=500, epsabs=1e-10)
    rows = Binary(k, beta, zero="posterior").fit(staircase(total))
    own = Binary(k, beta).fit(staircase(total))
    assert rows.a[0] == pytest.approx(weighted / mass, rel=1e-4)
    assert own.a[1] < rows.a[0] < own.a[0]
    np.testing.assert_array_equal(rows.a[1:], own.a[1:])


def test_drop_keeps_the_reference_where_nothing_succeeded():
    rows, own = Binary(4, 0.1, zero="drop").fit(staircase(6)), Binary(4, 0.1).fit(staircase(6))
    assert (rows.a[0], rows.log_z[0], rows.p_star[0], rows.beta_eff[0]) == (0, 0, 0, np.inf)
    for name, value in vars(own).items():
        np.testing.assert_allclose(vars(rows)[name][1:], value[1:], rtol=1e-12, atol=1e-15, err_msg=name)


@pytest.mark.parametrize("zero", ["paper", "posterior", "drop"])
@pytest.mark.parametrize("assign", ["own", "mean", "permuted"])
@given(**settings)
def test_other_coefficients_keep_the_rest_consistent(assign, zero, k, beta):
    bank = staircase(12)
    rows = Binary(k, beta, zero=zero, assign=assign).fit(bank)
    tilt = rows.a / beta
    with np.errstate(divide="ignore"):
        log_q, log_1mq = np.log(rows.q), np.log1p(-rows.q)
        np.testing.assert_allclose(rows.beta_eff, 1 / tilt, rtol=1e-12)
    log_z = np.logaddexp(log_1mq, log_q + tilt)
    np.testing.assert_allclose(rows.log_z, log_z, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(rows.p_star, np.exp(log_q + tilt - log_z), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(rows.successes, bank.sum(axis=1))
    own = Binary(k, beta, zero=zero).fit(bank)
    if assign == "mean":
        np.testing.assert_allclose(rows.a, np.full(13, own.a.mean()), rtol=1e-12)
    if assign == "permuted":
        np.testing.assert_array_equal(np.sort(rows.a), np.sort(own.a))
        assert k == 1 or zero == "drop" or not np.array_equal(rows.a, own.a)


@pytest.mark.parametrize("assign", ["mean", "permuted"])
@given(**settings)
def test_controls_of_the_regularisation_side_keep_to_prompts_with_pairs(assign, k, beta):
    bank = np.concatenate([staircase(9), np.zeros((3, 9)), np.ones((2, 9))])
    rows = Binary(k, beta, assign=assign).fit(bank, "regularization")
    own = Binary(k, beta).fit(bank, "regularization")
    paired = (own.successes > 0) & (own.successes < 9)
    np.testing.assert_array_equal(rows.beta_eff[~paired], own.beta_eff[~paired])
    if assign == "mean":
        np.testing.assert_allclose(rows.beta_eff[paired], own.beta_eff[paired].mean(), rtol=1e-14)
    else:
        np.testing.assert_array_equal(np.sort(rows.beta_eff[paired]), np.sort(own.beta_eff[paired]))


def test_controls_without_any_pair():
    for assign in ("mean", "permuted"):
        rows = Binary(4, 0.1, assign=assign).fit(np.zeros((2, 5)), "regularization")
        np.testing.assert_allclose(rows.beta_eff, 0.1 / 4, rtol=1e-15)


@pytest.mark.parametrize(("k", "beta", "total"), [(4, 0.1, 30), (2, 0.5, 8)])
def test_posterior_estimator_is_the_mean_coefficient_for_every_count(k, beta, total):
    rows = Binary(k, beta, estimator="posterior").fit(staircase(total))
    for n in (1, total // 2, total - 1):

        def density(p, n=n):
            return p ** (n - 0.5) * (1 - p) ** (total - n - 0.5)

        precise = {"limit": 500, "epsabs": 0, "epsrel": 1e-8}
        mass = quad(density, 0, 1, **precise)[0]
        weighted = quad(lambda p, f=density: f(p) * optimum(p, k, beta), 1e-12, 1 - 1e-12, **precise)[0]
        assert rows.a[n] == pytest.approx(weighted / mass, rel=1e-4)
    np.testing.assert_array_equal(rows.a[0], Binary(k, beta, zero="posterior").fit(staircase(total)).a[0])
    dropped = Binary(k, beta, estimator="posterior", zero="drop").fit(staircase(total))
    np.testing.assert_array_equal(dropped.a, [0, *rows.a[1:]])


def exact_optimum(bank, k, beta):
    """p_star of a bank's row with ties broken at random."""
    levels, counts = np.unique(bank, return_counts=True)
    return levels, ties.solve(counts, k, beta)


@given(
    bank=arrays(float, (2, 6), elements=st.integers(0, 4)),
    online=arrays(float, (2, 7), elements=st.integers(-2, 10).map(lambda n: n / 2)),
    k=st.integers(1, 8),
    beta=st.floats(0.01, 2),
)
def test_exact_ties(bank, online, k, beta):
    """A reward of the bank gets its atom's score, another one that of the edge where it would stand."""
    pressure = WinRate(k, beta, "exact")
    rows = pressure.fit(bank)
    adapted = pressure.adapt(online, rows).reward
    for x in range(2):
        levels, want = exact_optimum(bank[x], k, beta)
        for r, got in zip(online[x], adapted[x], strict=True):
            below = int((levels < r).sum())
            assert got == (want.score[below] if r in levels else want.edge[below])
        np.testing.assert_allclose(rows.p_star[x], np.exp(want.log_p) @ levels, rtol=1e-9, atol=1e-12)


@given(bank=arrays(float, (3, 8), elements=st.integers(0, 1)), k=st.integers(1, 16), beta=st.floats(0.01, 2))
def test_raw_reward_of_successes_is_binary_pressure(bank, k, beta):
    online = np.array([[0.0, 1.0]] * 3)
    raw, two = RawReward(k, beta), Binary(k, beta)
    rows, want = raw.fit(bank), two.fit(bank)
    adapted, plain = raw.adapt(online, rows), two.adapt(online, want)
    inside = (want.successes > 0) & (want.successes < 8)
    np.testing.assert_allclose(adapted.reward[inside], (plain.scale * plain.reward)[inside], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(adapted.log_partition[inside], plain.log_partition[inside], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(rows.p_star, want.p_star, rtol=1e-9, atol=1e-12)


@given(bank=arrays(float, (2, 6), elements=st.integers(0, 16).map(lambda n: n / 16)), beta=st.floats(0.01, 2))
def test_raw_reward_at_k1_is_the_reward_itself(bank, beta):
    """Up to the prompt's lowest reward, which log Z takes back."""
    raw, none = RawReward(1, beta), NoPressure(beta)
    online = np.array([[0.0, 0.3, 1.0, 2.0]] * 2)
    adapted, plain = raw.adapt(online, raw.fit(bank)), none.adapt(online, none.fit(bank))
    got, want = (a.scale * a.reward - beta * a.log_partition for a in (adapted, plain))
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def test_transformed_rewards_have_no_regularisation_side():
    for pressure in (RawReward(2, 0.1), WinRate(2, 0.1, "exact")):
        with pytest.raises(ValueError, match="no regularisation side"):
            pressure.fit(staircase(3), "regularization")


@pytest.mark.parametrize("zero", ["posterior", "drop"])
def test_regularisation_side_has_the_papers_zero_only(zero):
    with pytest.raises(ValueError, match="set zero=paper"):
        Binary(2, 0.1, zero=zero).fit(staircase(3), "regularization")
