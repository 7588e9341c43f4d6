import numpy as np
import pytest

from kappo.compose import compose
from kappo.errors import UserError
from kappo.pressure.binary import Binary
from kappo.pressure.online import OnlineRate

BANK = np.array([[0.0] * 9 + [1.0], [0.0] * 10, [1.0] * 10])


def test_a_is_that_of_the_running_rate_before_these_rewards():
    pressure = Binary(4, 0.1, estimator="online", memory=6)
    rows = pressure.fit(BANK)
    np.testing.assert_allclose(rows.a, Binary(4, 0.1).fit(BANK).a)
    online = OnlineRate.of(pressure, rows)
    np.testing.assert_allclose(online.rate, [1.5 / 11, 0.5 / 11, 10.5 / 11])
    first = np.array([[1.0, 0.0]])
    found = online.renewed(rows.take(np.array([1])), np.array([1]), first)
    assert found.a[0] == pytest.approx(4 * (1 - 0.5 / 11) ** 3)
    assert online.rate[1] == pytest.approx(0.5 / 11 + 2 / 8 * (0.5 - 0.5 / 11))
    assert online.rate[0] == pytest.approx(1.5 / 11)
    adapted = pressure.adapt(first, found)
    np.testing.assert_allclose(adapted.scale, found.a[:, None] * np.ones((1, 2)))


def test_the_running_rate_forgets():
    pressure = Binary(2, 0.1, estimator="online", memory=4)
    rows = pressure.fit(BANK)
    online, rng = OnlineRate.of(pressure, rows), np.random.default_rng(0)
    picks, truth = np.arange(3), np.array([0.8, 0.3, 0.5])
    seen = []
    for _ in range(4000):
        online.renewed(rows, picks, (rng.random((3, 4)) < truth[:, None]).astype(float))
        seen.append(online.rate.copy())
    np.testing.assert_allclose(np.mean(seen[100:], axis=0), truth, atol=0.01)


def test_other_pressures_are_not_online():
    assert OnlineRate.of(Binary(4, 0.1), Binary(4, 0.1).fit(BANK)) is None


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["pressure.zero=drop"], "set zero=paper"),
        (["pressure.assign=mean"], "set zero=paper"),
        (["method=dpo"], "plug_in"),
        (["method=rloo", "method.interface=regularization"], "plug_in"),
        (["pressure.memory=0"], "pressure.memory"),
    ],
)
def test_what_does_not_go_together(overrides, said):
    with pytest.raises(UserError) as caught:
        compose(["k=2", "pressure.estimator=online", *overrides])
    assert said in str(caught.value)
