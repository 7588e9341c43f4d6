import numpy as np
import pytest

from kappo.theory.metropolis import log_acceptance

EOS, LONGEST = 2, 4


def conditionals(prefix, temperature):
    """Next-token log-probabilities of a small model over {0, 1, end}."""
    logits = np.array([np.sin(1 + len(prefix) + 2 * sum(prefix)), np.cos(len(prefix)), 0.4 * len(prefix) - 0.5])
    logits = logits / temperature
    return logits - np.logaddexp.reduce(logits)


def sequences(prefix=()):
    if len(prefix) == LONGEST or EOS in prefix:
        return [prefix]
    return [s for token in (0, 1, EOS) for s in sequences((*prefix, token))]


def log_prob(sequence, start, temperature=1.0):
    return sum(conditionals(sequence[:i], temperature)[sequence[i]] for i in range(start, len(sequence)))


def transitions(alpha, temperature, lengths=True):
    """The chain that cuts evenly over the current sequence and draws the rest at a temperature."""
    states = sequences()
    chain = np.zeros((len(states), len(states)))
    for i, y in enumerate(states):
        for cut in range(len(y)):
            for j, z in enumerate(states):
                if len(z) <= cut or z[:cut] != y[:cut]:
                    continue
                base = log_prob(y, cut), log_prob(z, cut)
                drawn = log_prob(y, cut, temperature), log_prob(z, cut, temperature)
                accept = log_acceptance(alpha, *base, *drawn, *((len(y), len(z)) if lengths else (1, 1)))
                chain[i, j] += np.exp(drawn[1] + accept) / len(y)
        chain[i, i] += 1 - chain[i].sum()
    return states, chain


@pytest.mark.parametrize(("alpha", "temperature"), [(4.0, 0.25), (4.0, 1.0), (1.0, 1.0), (0.5, 0.7)])
def test_detailed_balance_of_the_power_distribution(alpha, temperature):
    states, chain = transitions(alpha, temperature)
    target = np.exp([alpha * log_prob(y, 0) for y in states])
    flow = (target / target.sum())[:, None] * chain
    np.testing.assert_allclose(flow, flow.T, atol=1e-15)
    np.testing.assert_allclose(chain.sum(axis=1), 1, rtol=1e-12)
    assert (chain >= -1e-15).all()


def test_without_the_lengths_the_chain_samples_something_else():
    states, chain = transitions(2.0, 1.0, lengths=False)
    target = np.exp([2 * log_prob(y, 0) for y in states])
    target /= target.sum()
    assert np.abs(target @ chain - target).sum() > 0.01


def test_never_above_one():
    assert log_acceptance(1.0, -5.0, -1.0, -1.0, -5.0, 10, 1) == 0
    np.testing.assert_allclose(log_acceptance(1.0, -1.0, -1.0, -1.0, -1.0, [2, 4], [4, 2]), [np.log(0.5), 0])


@pytest.mark.parametrize("lengths", [(0, 1), (1, 0), (-2, 3)])
def test_no_sequence_is_empty(lengths):
    with pytest.raises(ValueError, match="at least 1"):
        log_acceptance(1.0, 0.0, 0.0, 0.0, 0.0, *lengths)
