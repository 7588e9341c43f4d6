import numpy as np
import pytest

from kappo.errors import UserError
from kappo.pressure.binary import Binary
from kappo.pressure.raw_reward import RawReward
from kappo.pressure.winrate import WinRate

pytestmark = pytest.mark.slow
pytest.importorskip("trl", reason="TRL, whose reward functions are adapted, is not installed")
integration = pytest.importorskip("kappo.integrations.trl")


def lengths(completion_ids, **_):
    return [float(len(row)) for row in completion_ids]


@pytest.mark.parametrize("pressure", [WinRate(4, 0.1), WinRate(2, 0.3, "midrank"), RawReward(4, 0.1)])
def test_rewards_become_those_of_the_pressure(pressure):
    bank = {"1": [0.0, 0.25, 0.25, 1.0], "2": [0.5, 0.5, 0.75], "3": [0.0] * 5}
    ids = [2, 1, 1, 3, 2, 1]
    given = [0.75, 0.25, None, 0.0, 0.1, float("nan")]

    def passed(prompts, completions, **columns):
        assert columns["task"] == list("abcdef")
        return given

    adapted = integration.at_k_reward(passed, pressure, bank, "id")
    found = adapted(prompts=["x"] * 6, completions=["y"] * 6, id=ids, task=list("abcdef"))
    assert adapted.__name__ == "passed"
    assert found[2] is None
    assert np.isnan(found[5])
    for i in (0, 1, 3, 4):
        rows = pressure.fit(np.array([bank[str(ids[i])]]))
        assert found[i] == pytest.approx(pressure.adapt(np.array([[given[i]]]), rows).reward[0, 0], rel=1e-12)


def test_errors_of_reward_functions():
    async def later(**_):
        return []

    bank = {"p0": [0.0, 1.0]}
    with pytest.raises(UserError, match=r"pressure = Binary.*AtKGRPOTrainer"):
        integration.at_k_reward(lengths, Binary(4, 0.1), bank)
    with pytest.raises(UserError, match="reward_func later: expected an ordinary function"):
        integration.at_k_reward(later, WinRate(4, 0.1), bank)
    with pytest.raises(UserError, match="bank: reward nan of prompt 'p1', completion 1"):
        integration.at_k_reward(lengths, WinRate(4, 0.1), {**bank, "p1": [0.0, float("nan")]})
    adapted = integration.at_k_reward(lengths, WinRate(4, 0.1), bank)
    with pytest.raises(UserError, match="no rewards of prompt 'p7' of column 'prompt_id'"):
        adapted(prompts=[""], completions=[""], completion_ids=[[1]], prompt_id=["p7"])
    with pytest.raises(UserError, match=r"no column 'prompt_id'.*did you mean 'prompt_ids'"):
        adapted(prompts=[""], completions=[""], completion_ids=[[1]], prompt_ids=["p0"])
