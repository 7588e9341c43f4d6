import json

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from kappo.figures.claims import MISSING, UNDECIDED, bound, claims, holm, verdict
from kappo.records import write_table
from kappo.study_file import Arm, Claim
from tests.figures.test_at_k import samples

APO, BASE = Arm("apo", 1), Arm("base")
PROBLEMS, N = 40, 8


@pytest.fixture
def indexes(tmp_path):
    """Six replicates; A*PO is right about 0.3 more often than the base model."""
    made = []
    for replicate in range(6):
        entries = []
        for method, k, p in (("base", 0, 0.3), ("apo", 1, 0.6)):
            seed = np.random.default_rng(10 * replicate + k)
            folder = tmp_path / f"{method}-{replicate}"
            write_table(folder / "samples.parquet", samples((seed.random((PROBLEMS, N)) < p).astype(float)))
            entry = {"method": method, "pressure": "none", "k": k, "arm": "", "task": "rules", "split": "id"}
            entry |= {"metric": "pass", "replicate": replicate, "folder": folder.name, "run": "", "step": 0, "kl": 0.5}
            entries.append({**entry, "rollouts": 0, "bank_rollouts": 0})
        made.append(tmp_path / f"{replicate}.json")
        made[-1].write_text(json.dumps(entries))
    return made


def differences(indexes, k_eval=1):
    from kappo.evaluation import curve
    from kappo.records import SAMPLES, by_prompt, read_table

    means = []
    for index in indexes:
        base, apo = (index.parent / entry["folder"] / "samples.parquet" for entry in json.loads(index.read_text()))
        left, right = (curve(by_prompt(read_table(p, SAMPLES), "reward")[1], [k_eval]).mean() for p in (apo, base))
        means.append(left - right)
    return np.array(means)


def test_paired_t_test_over_replicates(indexes):
    claim = Claim("gains", APO, BASE, "id", 1, at_least=0.25)
    (row,) = claims(indexes, [claim], 200)
    want = differences(indexes)
    test = ttest_1samp(want, 0.25, alternative="greater")
    assert row["difference"] == pytest.approx(want.mean())
    assert row["p_holds"] == pytest.approx(test.pvalue)
    low, high = ttest_1samp(want, 0).confidence_interval(0.95)
    assert (row["low"], row["high"]) == (pytest.approx(low), pytest.approx(high))
    assert (row["replicates"], row["problems"]) == (6, 6 * PROBLEMS)


@pytest.mark.parametrize(
    ("bounds", "want"),
    [
        ({"at_least": 0.1}, "holds"),
        ({"at_least": 0.5}, "does not hold"),
        ({"at_least": 0.3}, UNDECIDED),
        ({"at_most": 0.5}, "holds"),
        ({"at_most": 0.1}, "does not hold"),
        ({"at_least": 0.1, "at_most": 0.5}, "holds"),
        ({"at_least": 0.5, "at_most": 0.9}, "does not hold"),
        ({"at_least": 0.29, "at_most": 0.31}, UNDECIDED),
    ],
)
def test_verdicts(indexes, bounds, want):
    (row,) = claims(indexes, [Claim("c", APO, BASE, "id", 1, **bounds)], 200)
    assert row["verdict"] == want
    assert want in verdict([row])
    assert bound(Claim("c", APO, BASE, "id", 1, **bounds)) in verdict([row])


def test_one_replicate_speaks_of_its_problems_alone(indexes):
    (row,) = claims(indexes[:1], [Claim("c", APO, BASE, "id", 1, at_least=0.0)], 200)
    assert (row["verdict"], row["replicates"], row["problems"]) == ("holds", 1, PROBLEMS)
    assert "says nothing about others" in verdict([row])


def test_claims_about_what_is_not_there(indexes):
    wanted = [
        Claim("no such arm", Arm("apo", 2), BASE, "id", 1, at_least=0.0),
        Claim("no such split", APO, BASE, "hard", 1, at_least=0.0),
        Claim("there", APO, BASE, "id", 1, at_least=0.1),
    ]
    rows = claims(indexes, wanted, 200)
    assert [row["verdict"] for row in rows] == [MISSING, MISSING, "holds"]
    assert rows[2]["p_holds"] == claims(indexes, wanted[2:], 200)[0]["p_holds"]


def test_many_claims_are_harder_to_hold(indexes):
    one = claims(indexes, [Claim("c", APO, BASE, "id", 1, at_least=0.25)], 200)[0]
    many = claims(indexes, [Claim("c", APO, BASE, "id", 1, at_least=0.25)] * 5, 200)[0]
    assert many["p_holds"] == pytest.approx(min(1.0, 5 * one["p_holds"]))


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_a_claim_needs_a_bound():
    with pytest.raises(ValueError, match="expected at_least or at_most"):
        Claim("c", APO, BASE, "id", 1)
