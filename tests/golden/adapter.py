"""The golden records' function names, mapped onto the package: the oracle's `check.py --module tests.golden.adapter`.

Every result is a dictionary with the records' keys; arrays become lists.
"""

from __future__ import annotations

import numpy as np
from scipy.special import beta as beta_function
from scipy.special import log_softmax

from kappo.theory import binary as pass_k
from kappo.theory import estimators, finite_bank, raw_reward
from kappo.theory import sharpening as theory
from kappo.theory import winrate as win_rate


def binary(k, beta, p_ref):
    return _binary(pass_k.solve(pass_k.logit(p_ref), k, beta), beta)


def _binary(found, beta):
    with np.errstate(over="ignore"):
        columns = {
            "p_star": found.p,
            "one_minus_p_star": np.exp(found.log_1mp),
            "log_one_minus_p_star": found.log_1mp,
            "log_p_star": found.log_p,
            "a_k": found.a,
            "log_a_k": found.log_a,
            "beta_eff": found.beta_eff,
            "log_beta_eff": found.log_beta_eff,
            "inv_beta_eff": np.exp(-found.log_beta_eff),
            "log_Z": found.log_z,
            "beta_log_Z": beta * found.log_z,
            "logit_p_star": found.log_p - found.log_1mp,
        }
    return {name: value.tolist() for name, value in columns.items()}


def algorithm1(method, k, beta, M, alpha):
    found = pass_k.solve_counts(np.arange(M + 1), M, k, beta, alpha)
    columns = _binary(found, beta)
    ell = columns["beta_log_Z"]
    columns |= {
        "j": range(M + 1),
        "q": np.arange(M + 1) / (M + alpha),
        "a": columns["a_k"],
        "log_a": columns["log_a_k"],
        "ell": ell,
        "beta_eff_uncapped": columns["beta_eff"],
        "log_beta_eff_uncapped": columns["log_beta_eff"],
    }
    if method == "DPO":
        columns["b"] = pass_k.dpo_beta(found)
    else:
        columns["target_R1"] = np.subtract(columns["a_k"], ell)
        columns["target_R0"] = np.negative(ell)
    return [dict(zip(columns, map(float, row), strict=True)) for row in zip(*columns.values(), strict=True)]


def winrate(k, beta, M):
    log_c, table = win_rate.log_c(k, beta), win_rate.table(M, k, beta)
    rise = win_rate.rise(np.arange(M + 1), M, k, beta)
    return {
        "log_C": log_c,
        "log_betaC": log_c + np.log(beta),
        "T": table.tolist(),
        "T_M": float(table[-1]),
        "T_minus_T0": rise.tolist(),
        "G": win_rate.inverse_psi(np.arange(M + 1), M, k, beta).tolist(),
        "Delta_T": float(rise[-1]),
        "bank_log_mean_exp_T_over_beta": float(np.logaddexp.reduce(table[1:] / beta) - np.log(M)),
    }


def pass_at_k(n, c, k):
    return float(estimators.pass_at_k(c, n, k))


def max_at_k(rewards, k):
    return float(estimators.max_at_k(rewards, k))


def pkpo(rewards, k):
    n = len(rewards)
    return {
        "rho": max_at_k(rewards, k),
        "s": estimators.pkpo_plain(rewards, k).tolist(),
        "sloo": estimators.pkpo_leave_one_out(rewards, k).tolist() if k < n else None,
        "sloo_minus_one": estimators.pkpo(rewards, k).tolist() if k > 1 else None,
    }


def max_at_k_policy_gradient(policy_weights, rewards, k):
    pi = np.array(policy_weights) / np.sum(policy_weights)
    value, score = estimators.policy_max_at_k(pi, rewards, k)
    return {"max_at_k": float(value), "grad_logits": (pi * (score - pi @ score)).tolist()}


def fig1a(k, beta, p_ref):
    found = binary(k, beta, p_ref)
    return found | {"beta_eff_over_beta": found["beta_eff"] / beta}


def maxk_discrete(rewards, counts, k, beta):
    found = raw_reward.solve_discrete(rewards, k, beta, counts)
    p, cdf = np.exp(found.log_p), np.exp(found.log_cdf)
    return {
        "log_c": float(found.log_c),
        "c": float(np.exp(found.log_c)),
        "log_Z": -float(found.log_c),
        "p": p.tolist(),
        "log_p": found.log_p.tolist(),
        "P": cdf.tolist(),
        "H": found.score.tolist(),
        "beta_eff": [None, *found.beta_eff[1:].tolist()],
        "beta_eff_right_limit_at_r1": float(found.beta_eff[0]),
    }


def fig1bc(beta_a, beta_b, k, beta, r):
    scale = beta_function(beta_a, beta_b)

    def density(x):
        return x ** (beta_a - 1) * max(1.0 - x, 0.0) ** (beta_b - 1) / scale

    found = raw_reward.solve_continuous(density, 0.0, 1.0, k, beta, r)
    return {
        "F_star": found.cdf.tolist(),
        "S": found.score.tolist(),
        "beta_eff": [None, *found.beta_eff[1:].tolist()],
        "log_c": found.log_c,
    }


def sensitivity(k, beta, M, q):
    errors = {"p_star": finite_bank.p_star, "a_k": finite_bank.a_k, "beta_eff_rel": finite_bank.beta_eff}
    found = {}
    for name, of in errors.items():
        error = of(M, k, beta, q)
        found[f"{name}_sigma"], found[f"{name}_bias"] = float(error.sigma), float(error.bias)
    score = finite_bank.score(M, k, beta, q)
    found["T_sigma_over_DeltaT"], found["T_bias_over_DeltaT"] = float(score.sigma), float(score.bias)
    weights = finite_bank.binomial(M, q)
    exact = pass_k.solve(pass_k.logit(q), k, beta)
    return found | {
        "p_star": float(exact.p),
        "a_k": float(exact.a),
        "beta_eff": float(exact.beta_eff),
        "prob_N_0": float(weights[0]),
        "prob_N_M": float(weights[-1]),
    }


def sharpening(kind, **inputs):
    return globals()[f"_{kind}"](**inputs)


def _space(base_weights, rewards):
    weights = np.array(base_weights, dtype=np.float64)
    return np.log(weights / weights.sum()), np.array(rewards)


def _moments(found, log_base, rewards):
    pi = np.exp(found.log_pi)
    return {
        "pi": pi.tolist(),
        "log_Z": float(found.log_z),
        "expected_reward": float(pi @ rewards),
        "entropy": float(-pi @ found.log_pi),
        "expected_log_base": float(pi @ log_base),
    }


def _tempered_optimum(label, base_weights, rewards, alpha):
    log_base, r = _space(base_weights, rewards)
    found = theory.optimum(log_base, 0 * r, alpha, 1.0)
    return _moments(found, log_base, r) | {
        "max_objective": float(theory.objective(found.log_pi, log_base, 0 * r, alpha, 1.0))
    }


def _tilted_optimum(label, base_weights, rewards, alpha, beta):
    log_base, r = _space(base_weights, rewards)
    found = theory.optimum(log_base, r, alpha, beta)
    target = theory.optimum(log_base, 0 * r, alpha, 1.0)
    return _moments(found, log_base, r) | {
        "max_objective_unnormalised_target": float(theory.objective(found.log_pi, log_base, r, alpha, beta)),
        "kl_to_normalised_target": float(np.exp(found.log_pi) @ (found.log_pi - target.log_pi)),
    }


def _policy_gradient(label, base_weights, rewards, configuration, alpha, beta, theta):
    log_base, r = _space(base_weights, rewards)
    reward, beta = {
        "task_reward": (r, 0.0),
        "distribution_sharpening": (alpha * log_base, 0.0),
        "tempered": (0 * r, 1.0),
        "tilted": (r, beta),
    }[configuration]
    log_pi = log_softmax(theta)
    found = {
        "pi": np.exp(log_pi).tolist(),
        "objective": float(theory.objective(log_pi, log_base, reward, alpha, beta)),
        "per_sample_signal": theory.signal(log_pi, log_base, reward, alpha, beta).tolist(),
        "grad_theta": theory.gradient(theta, log_base, reward, alpha, beta).tolist(),
    }
    if beta:
        best = theory.optimum(log_base, reward, alpha, beta)
        found["max_objective"] = beta * float(best.log_z)
        found["kl_to_optimum"] = float(np.exp(log_pi) @ (log_pi - best.log_pi))
    return found


def _no_kl_limits(label, base_weights, rewards):
    log_base, r = _space(base_weights, rewards)
    return {
        "task_reward_support": np.flatnonzero(theory.best(r)).tolist(),
        "task_reward_value": float(r.max()),
        "sharpening_support": np.flatnonzero(theory.best(log_base)).tolist(),
        "sharpening_value": float(log_base.max()),
        "task_reward_limit_beta_to_0_alpha_1": theory.limit(log_base, r, 1.0).tolist(),
        "task_reward_limit_beta_to_0_alpha_2": theory.limit(log_base, r, 2.0).tolist(),
        "tempered_limit_alpha_to_inf": theory.limit(log_base, log_base, 1.0).tolist(),
    }


def _autoregressive(V, max_len, eos, table, alpha):
    """Sequences up to the end token or max_len, tempered as wholes and token by token."""
    steps = {tuple(row["prefix"]): np.log(np.array(row["weights"]) / np.sum(row["weights"])) for row in table}
    cold = {prefix: theory.optimum(log_p, 0 * log_p, alpha, 1.0).log_pi for prefix, log_p in steps.items()}

    def continued(prefix):
        if len(prefix) == max_len or eos in prefix:
            return [prefix]
        return [s for token in (eos, *range(V)) for s in continued((*prefix, token))]

    sequences = continued(())

    def log_prob(conditionals):
        return np.array([sum(conditionals[s[:i]][s[i]] for i in range(len(s))) for s in sequences])

    log_base, lengths = log_prob(steps), np.array([len(s) for s in sequences])
    whole = np.exp(theory.optimum(log_base, 0 * log_base, alpha, 1.0).log_pi)
    token = np.exp(log_prob(cold))
    mode = int(log_base.argmax())
    return {
        "sequences": [list(s) for s in sequences],
        "log_base": log_base.tolist(),
        "sequence_tempered": whole.tolist(),
        "token_tempered": token.tolist(),
        "total_variation": float(np.abs(whole - token).sum() / 2),
        "mean_length_base": float(np.exp(log_base) @ lengths),
        "mean_length_sequence_tempered": float(whole @ lengths),
        "mean_length_token_tempered": float(token @ lengths),
        "mode_index": mode,
        "mode_length": len(sequences[mode]),
    }


def _rloo(rewards):
    return {"advantage": estimators.leave_one_out(rewards).tolist()}
