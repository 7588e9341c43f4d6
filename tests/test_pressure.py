import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kappo.pressure import Binary, NoPressure, Rows
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


@pytest.mark.parametrize("value", [0.5, 2.0, -1.0, np.nan])
@pytest.mark.parametrize("pressure", [Binary(2, 0.1), NoPressure(0.1)])
def test_other_rewards_are_refused_by_place(pressure, value):
    bank = staircase(5)
    bank[3, 1] = value
    with pytest.raises(ValueError, match=f"reward {value} of prompt 3, completion 1"):
        pressure.fit(bank)


@pytest.mark.parametrize("shape", [(3,), (3, 0), (3, 2, 2)])
def test_bank_must_be_prompts_by_completions(shape):
    with pytest.raises(ValueError, match="expected \\(prompts, completions\\)"):
        Binary(2, 0.1).fit(np.zeros(shape))


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
