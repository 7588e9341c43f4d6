import json

import numpy as np
import pytest

from kappo import streams
from kappo.errors import UserError
from kappo.evaluation import choose, compare, curve, interval
from kappo.records import write_json
from kappo.theory.estimators import pass_at_k

RNG = np.random.default_rng(0)


def problems(size, ks=2, seed=0):
    return np.random.default_rng(seed).random((size, ks))


def test_curve_is_the_unbiased_estimate_of_every_problem():
    counts, ks = np.array([0, 1, 3, 8]), (1, 2, 8)
    rewards = (np.arange(8) >= 8 - counts[:, None]).astype(float)
    got = curve(rewards, ks)
    assert got.shape == (4, 3)
    np.testing.assert_allclose(got[:, 0], counts / 8, rtol=1e-15)
    np.testing.assert_array_equal(got[:, 2], [0, 1, 1, 1])
    np.testing.assert_array_equal(got[:, 1], pass_at_k(counts, 8, 2))


def test_curve_of_shares_is_max_at_k():
    rewards = np.array([[0.0, 1.0, 0.25, 0.5], [1.0, 0.0, 0.0, 1.0]])
    got = curve(rewards, (1, 2, 4))
    np.testing.assert_allclose(got, [[7 / 16, 17 / 24, 1], [0.5, 5 / 6, 1]], rtol=1e-14)
    np.testing.assert_allclose(got[1:], curve(rewards[1:], (1, 2, 4)), rtol=1e-14)


def test_mean_is_exact_and_inside():
    replicates = [problems(20), problems(30, seed=1), problems(7, seed=2)]
    mean, low, high = interval(replicates, 500)
    np.testing.assert_allclose(mean, np.mean([r.mean(axis=0) for r in replicates], axis=0), rtol=1e-14)
    assert (low < mean).all()
    assert (mean < high).all()


@pytest.mark.parametrize("replicates", [1, 3])
def test_constant_data_has_no_width(replicates):
    mean, low, high = interval([np.full((12, 2), 0.25)] * replicates, 200)
    np.testing.assert_allclose([low, high], [mean, mean], rtol=1e-9)
    np.testing.assert_allclose(mean, 0.25, rtol=1e-9)


def test_draws_are_a_function_of_the_seed():
    one, same, other = (interval([problems(20)], 300, seed) for seed in (4, 4, 5))
    np.testing.assert_array_equal(one, same)
    np.testing.assert_array_equal(one[0], other[0])
    assert not np.array_equal(one[1], other[1])


def test_quantiles_of_a_known_resampling_distribution():
    """Two problems with values 0 and 1: the resampled mean is 0, 1/2 or 1 with probability 1/4, 1/2, 1/4."""
    mean, low, high = interval([np.array([[0.0], [1.0]])], 2000)
    assert (mean, low, high) == (0.5, 0.0, 1.0)


def test_width_is_that_of_the_normal_approximation():
    values = problems(400, ks=1)
    mean, low, high = interval([values], 2000)
    error = values.std() / np.sqrt(len(values))
    np.testing.assert_allclose([mean - low, high - mean], [[1.96 * error]] * 2, rtol=0.1)


def test_coverage_of_a_binomial_population():
    """Problems with p ~ Beta(1, 2), 16 samples each: pass@4 of the population is E[1 - (1 - p)^4] = 2/3."""
    repeats, size, n = 300, 60, 16
    counts = RNG.binomial(n, RNG.beta(1, 2, size=(repeats, size)))
    rewards = (np.arange(n) < counts[..., None]).astype(float)
    found = [interval([curve(r, (4,))], 200, seed) for seed, r in enumerate(rewards)]
    covered = np.mean([low[0] <= 2 / 3 <= high[0] for _, low, high in found])
    assert 0.90 <= covered <= 0.99


def width(replicates):
    _, low, high = interval(replicates, 1000)
    return (high - low)[0]


def test_replicates_that_differ_widen_the_interval():
    values = problems(50, ks=1)
    same = [values] * 3
    apart = [values - 0.3, values, values + 0.3]
    assert width(apart) > 2 * width(same)
    assert width([np.full((50, 1), v) for v in (0.2, 0.5, 0.8)]) > 0.3


def test_replicates_weigh_the_same_whatever_their_size():
    mean, _, _ = interval([np.zeros((100, 1)), np.ones((2, 1))], 100)
    assert mean == 0.5


def run(folder, name, scores, k=2, method="apo", pressure="binary", metric="pass", **more):
    checkpoints = [
        {"step": step, "kl": 0.2, f"{metric}@1": 0.99, f"{metric}@{k}": score} for step, score in scores.items()
    ]
    arm = {"method": method, "pressure": pressure, "k": k, "replicate": 0, "seed": 0, "metric": metric}
    found = {**arm, "checkpoints": checkpoints, **more}
    (folder / name).mkdir()
    (folder / name / "validation.json").write_text(json.dumps(found))
    return folder / name


def test_best_checkpoint_of_the_best_run(tmp_path):
    runs = [
        run(tmp_path, "one", {25: 0.3, 50: 0.5}, lr=1e-3),
        run(tmp_path, "two", {25: 0.6, 50: 0.4}, lr=2e-3),
    ]
    (row,) = choose(runs)
    assert (row["run"], row["step"], row["score"], row["lr"], row["candidates"]) == ("two", 25, 0.6, 2e-3, 4)
    assert row["model"] == str(tmp_path / "two" / "checkpoints" / "step-000025")
    assert "checkpoints" not in row


def test_ties_go_to_the_earlier_step_then_to_the_name(tmp_path):
    runs = [
        run(tmp_path, "c", {50: 0.5}),
        run(tmp_path, "b", {75: 0.5, 25: 0.5}),
        run(tmp_path, "a", {25: 0.5, 50: 0.5}),
    ]
    for order in (runs, runs[::-1]):
        (row,) = choose(order)
        assert (row["run"], row["step"]) == ("a", 25)
    (row,) = choose([run(tmp_path, "0", {50: 0.5}), runs[1]])
    assert (row["run"], row["step"]) == ("b", 25)


def test_arms_are_chosen_apart_each_by_its_own_k(tmp_path):
    runs = [
        run(tmp_path, "k2", {25: 0.9}),
        run(tmp_path, "k4", {25: 0.1, 50: 0.2}, k=4),
        run(tmp_path, "none", {25: 0.3}, k=1, pressure="none"),
        run(tmp_path, "other", {25: 0.4}, method="grpo"),
    ]
    chosen = {(row["method"], row["pressure"], row["k"]): (row["run"], row["step"]) for row in choose(runs)}
    assert chosen == {
        ("apo", "binary", 2): ("k2", 25),
        ("apo", "binary", 4): ("k4", 50),
        ("apo", "none", 1): ("none", 25),
        ("grpo", "binary", 2): ("other", 25),
    }


def test_replicates_and_seeds_are_chosen_apart(tmp_path):
    runs = [run(tmp_path, f"r{r}s{s}", {1: 0.1 * r + 0.01 * s}, replicate=r, seed=s) for r in (0, 1) for s in (0, 1)]
    assert len(choose(runs)) == 4


def test_score_is_the_tasks_metric(tmp_path):
    (row,) = choose([run(tmp_path, "one", {25: 0.3, 50: 0.5}, metric="max")])
    assert (row["step"], row["score"]) == (50, 0.5)


def test_runs_set_apart_are_chosen_apart(tmp_path):
    runs = [run(tmp_path, "plain", {25: 0.3}), run(tmp_path, "a", {25: 0.4}), run(tmp_path, "b", {25: 0.5})]
    chosen = {row["arm"]: (row["run"], row["candidates"]) for row in choose(runs, ["", "mean", "mean"])}
    assert chosen == {"": ("plain", 1), "mean": ("b", 2)}


def test_interval_over_replicates_is_students_t_of_their_means():
    replicates = [np.full((5, 1), mean) for mean in (0.4, 0.5, 0.6)]
    mean, low, high = interval(replicates, 100)
    quantile = 0.95 / np.sqrt(2 * 0.975 * 0.025)
    reach = quantile * 0.1 / np.sqrt(3)
    np.testing.assert_allclose([mean[0], low[0], high[0]], [0.5, 0.5 - reach, 0.5 + reach], rtol=1e-9)


def test_interval_over_few_replicates_covers_a_replicate_effect():
    covered = 0
    for seed in range(300):
        effects = 0.5 + 0.1 * streams.normal(seed, "effects", np.arange(4))
        _, low, high = interval([np.full((10, 1), effect) for effect in effects], 100)
        covered += bool(low[0] <= 0.5 <= high[0])
    assert 0.90 <= covered / 300 <= 0.99


def tried(folder, beta, replicate, scores, k=4):
    about = {"method": "apo", "pressure": "binary", "k": k, "beta": beta, "lr": 1e-3, "replicate": replicate, "seed": 0}
    rows = [{"step": step, "kl": 0.1, f"pass@{k}": score, "pass@1": 0.9} for step, score in scores.items()]
    run = folder / f"k{k}-{beta}-{replicate}"
    write_json(run / "validation.json", {**about, "metric": "pass", "checkpoints": rows})
    return run


def test_compare_averages_best_checkpoints_over_replicates(tmp_path):
    runs = [
        tried(tmp_path, 0.1, 0, {5: 0.2, 10: 0.4}),
        tried(tmp_path, 0.3, 0, {5: 0.9, 10: 0.1}),
        tried(tmp_path, 0.1, 1, {5: 0.6, 10: 0.5}),
        tried(tmp_path, 0.3, 1, {5: 0.0, 10: 0.2}),
        tried(tmp_path, 0.1, 0, {5: 0.1}, k=2),
    ]
    rows = compare(runs)
    assert [(row["k"], row["beta"], row["chosen"], row["replicates"]) for row in rows] == [
        (4, 0.1, 0, 2),
        (4, 0.3, 1, 2),
        (2, 0.1, 1, 1),
    ]
    assert [row["score"] for row in rows] == pytest.approx([0.5, 0.55, 0.1])
    assert [row["step"] for row in rows] == pytest.approx([7.5, 7.5, 5])


def test_compare_needs_the_same_replicates(tmp_path):
    runs = [tried(tmp_path, 0.1, 0, {5: 0.2}), tried(tmp_path, 0.3, 1, {5: 0.2})]
    with pytest.raises(UserError, match="different replicates"):
        compare(runs)
    with pytest.raises(UserError, match="another run has the same"):
        compare([runs[0], tried(tmp_path / "twin", 0.1, 0, {5: 0.2})])
