"""What a bank of M completions a prompt costs, exactly (KAPPO, Appendix K, figures 5-7), at each beta."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kappo.figures import style
from kappo.figures.rows import Row
from kappo.figures.theory.optimum import digits, look
from kappo.theory import binary, finite_bank, winrate
from kappo.theory.binary import Floats

if TYPE_CHECKING:
    from kappo.study_file import Theory

LINEAR = 1e-6
"""Relative errors of beta_eff are drawn on a logarithmic axis of both signs, linear within +-1e-6 (figure 6)."""

EDGE = 9.2
"""Logit at which the axes of noise and bias end: q = 1e-4 and 1 - 1e-4."""

POINTS = 301
"""Of each of their curves."""

Estimate = Callable[[int, int, float, Floats], finite_bank.Error]

BINARY: dict[str, tuple[str, Estimate]] = {
    "p*": ("optimal success $p^*$", finite_bank.p_star),
    "a_k": ("multiplier $a_k$", finite_bank.a_k),
    "beta_eff (relative)": (r"$\beta_{\mathrm{eff}}$, relative", finite_bank.beta_eff),
}
"""Quantities of figure 6: what the axis says, and their error."""


def optimal_success_rows(settings: Theory) -> list[Row]:
    """The curves and dots of figure 5: the optimum's success probability p*, in [0, 1], at each k and beta (eq. 6).

    whole: against p_ref in [0, 1]; its dots are the M + 1 values that a bank can give, at p_ref = j / M.
    deep: against log10 p_ref, down to p_ref = exp(-1.25 / beta - 2), where p* of every k has left its plateau.
    """
    total = settings.samples_per_prompt
    p_ref = np.linspace(0, 1, 401)
    made = []
    for beta in settings.beta:
        log_ref = -np.linspace(1.25 / beta + 2, 0.02, 400)
        logit = log_ref - np.log(-np.expm1(log_ref))
        for k in settings.k:
            j = np.arange(total + 1)
            bank = binary.solve_counts(j, total, k, beta).p
            whole, deep = binary.solve(binary.logit(p_ref), k, beta).p, binary.solve(logit, k, beta).p
            made += _points("whole", "curve", "p_ref", "p*", k, beta, p_ref, whole)
            made += _points("whole", "dots", "p_ref = j / M", "p*", k, beta, j / total, bank)
            made += _points("deep", "curve", "log10 p_ref", "p*", k, beta, log_ref / np.log(10), deep)
    return made


def bank_error_binary_rows(settings: Theory) -> list[Row]:
    """The curves of figure 6: noise (standard deviation) and signed bias of the coefficients of a bank (eq. 151).

    Against the true success probability q in (0, 1). p* and a_k from N / M, in their own units; DPO's beta_eff from
    N / (M + 0.5) with its cap (eq. 153), relative to the exact one.
    """
    made = []
    for beta in settings.beta:
        for name, (_, estimate) in BINARY.items():
            made += _errors(name, "p_ref", estimate, settings, beta)
    return made


def bank_error_winrate_rows(settings: Theory) -> list[Row]:
    """The curves of figure 7: the win-rate transformation T and its noise and bias, in units of T(1) - T(0).

    transformation: (T(q) - T(0)) / (T(1) - T(0)), in [0, 1], against the quantile q in [0, 1] (eq. 155). noise and
    bias: of T at a threshold of true quantile q in (0, 1), estimated from N / M (eq. 151).
    """
    q = np.linspace(0, 1, 401)
    made = []
    for beta in settings.beta:
        for k in settings.k:
            rise = winrate.rise(q, 1.0, k, beta)
            name = "(T - T(0)) / (T(1) - T(0))"
            made += _points("transformation", "curve", "quantile", name, k, beta, q, rise / rise[-1])
        made += _errors("T / (T(1) - T(0))", "quantile", finite_bank.score, settings, beta)
    return made


def _errors(name: str, x_is: str, estimate: Estimate, settings: Theory, beta: float) -> list[Row]:
    q = np.exp(-np.logaddexp(0.0, -np.linspace(-EDGE, EDGE, POINTS)))
    made = []
    for k in settings.k:
        error = estimate(settings.samples_per_prompt, k, beta, q)
        for panel, values in (("noise", error.sigma), ("bias", error.bias)):
            made += _points(panel, "curve", x_is, name, k, beta, q, values)
    return made


def _points(panel: str, drawn: str, x_is: str, y_is: str, k: int, beta: float, x: Floats, y: Floats) -> list[Row]:
    fixed = {"panel": panel, "drawn": drawn, "k": k, "beta": beta, "x_is": x_is, "y_is": y_is}
    return [{**fixed, "x": float(at), "y": float(value)} for at, value in zip(x, y, strict=True)]


def _stamped(rows: Sequence[Row], total: int) -> list[Row]:
    return digits([{"samples_per_prompt": total, **row} for row in rows])


def _draw(axis: Any, rows: Sequence[Row], settings: Theory, **which: Any) -> None:
    """The curves and dots of the rows with these values."""
    for k in settings.k:
        own = [row for row in rows if row["k"] == k and all(row[name] == value for name, value in which.items())]
        looks = look(settings.k, k)
        for drawn in dict.fromkeys(row["drawn"] for row in own):
            part = [row for row in own if row["drawn"] == drawn]
            x, y = [row["x"] for row in part], [row["y"] for row in part]
            if drawn == "dots":
                axis.plot(x, y, "o", color=looks["color"], markersize=2.2, clip_on=False, zorder=3)
            else:
                axis.plot(x, y, **looks)


def _logit_axis(axis: Any, line: float) -> None:
    """Both ends of (0, 1) at once, where the errors live, on the scale of 1 / M; a thin line at `line`."""
    axis.set_xscale("logit")
    axis.set_xlim(1e-4, 1 - 1e-4)
    ticks = (0.001, 0.5, 0.999)
    axis.set_xticks(ticks, [f"{at:g}" for at in ticks])
    axis.minorticks_off()
    axis.axvline(line, color=style.BASE, linewidth=0.7, zorder=1)


def _legend(figure: Any, axis: Any) -> None:
    handles, labels = axis.get_legend_handles_labels()
    look = {"frameon": False, "ncol": min(len(labels), 6), "handlelength": 2.6}
    figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.0), **look)


def optimal_success(settings: Theory, folder: Path) -> list[Path]:
    """Draw figure 5, a row of panels a beta: folder/optimal_success.{pdf,png,csv}; returns the paths."""
    plt = style.pyplot()
    rows, total = optimal_success_rows(settings), settings.samples_per_prompt
    size = (style.WIDTH, 0.3 + 1.75 * len(settings.beta))
    figure, axes = plt.subplots(len(settings.beta), 2, figsize=size, squeeze=False, sharey=True)
    for (left, right), beta in zip(axes, settings.beta, strict=True):
        _draw(left, rows, settings, beta=beta, panel="whole")
        _draw(right, rows, settings, beta=beta, panel="deep")
        left.set_title(rf"$\beta={beta:g}$; dots: a bank's $j/{total}$")
        right.set_title(rf"$\beta={beta:g}$; far below $1/{total}$")
        left.set_xlim(0, 1)
        left.set_ylim(0, 1)
        left.set_ylabel("optimal success $p^*$")
        right.axvline(-np.log10(total), color=style.BASE, linewidth=0.9, linestyle="-", zorder=1)
        lowest = -(1.25 / beta + 2) / np.log(10)
        right.set_xlim(lowest, 0)
        ticks = right.get_xticks()[right.get_xticks() >= lowest]
        right.set_xticks(ticks, ["1" if at == 0 else f"$10^{{{at:.0f}}}$" for at in ticks])
    axes[-1][0].set_xlabel(r"reference success $p_{\mathrm{ref}}$")
    axes[-1][1].set_xlabel(rf"reference success $p_{{\mathrm{{ref}}}}$ (log; line: $1/{total}$)")
    figure.tight_layout(w_pad=1.2, h_pad=1.0)
    _legend(figure, axes[0][1])
    return style.save(figure, folder / "optimal_success", _stamped(rows, total))


def bank_error_binary(settings: Theory, folder: Path) -> list[Path]:
    """Draw figure 6, two columns a beta: folder/bank_error_binary.{pdf,png,csv}; returns the paths."""
    plt = style.pyplot()
    rows, total = bank_error_binary_rows(settings), settings.samples_per_prompt
    columns = [(beta, panel) for beta in settings.beta for panel in ("noise", "bias")]
    size = (0.2 + 1.72 * len(columns), 4.3)
    figure, axes = plt.subplots(len(BINARY), len(columns), figsize=size, squeeze=False, sharex=True)
    for line, (name, (label, _)) in zip(axes, BINARY.items(), strict=True):
        for axis, (beta, panel) in zip(line, columns, strict=True):
            _draw(axis, rows, settings, y_is=name, beta=beta, panel=panel)
            _logit_axis(axis, 1 / total)
            if "relative" in name:
                axis.set_yscale("symlog", linthresh=LINEAR)
                sides = [1e-4, 1e-2, 1]
                ticks = [0, *sides] if panel == "noise" else [-1, -1e-2, -1e-4, 0, *sides]
                axis.set_yticks(ticks, [_power(at) for at in ticks])
                axis.minorticks_off()
                axis.set_ylim(-LINEAR if panel == "noise" else -3, 3)
        line[0].set_ylabel(label)
    for axis, (beta, panel) in zip(axes[0], columns, strict=True):
        axis.set_title(rf"{panel}, $\beta={beta:g}$")
    for axis in axes[-1]:
        axis.set_xlabel(rf"true $p_{{\mathrm{{ref}}}}$ (line: $1/{total}$)")
    figure.align_ylabels(axes[:, 0])
    figure.tight_layout(w_pad=0.6, h_pad=0.6)
    _legend(figure, axes[0][0])
    return style.save(figure, folder / "bank_error_binary", _stamped(rows, total))


def _power(value: float) -> str:
    """-0.01 as -10^-2; 0 and +-1 as they are."""
    if abs(value) in (0, 1):
        return f"{value:g}"
    return f"${'-' if value < 0 else ''}10^{{{np.log10(abs(value)):.0f}}}$"


def bank_error_winrate(settings: Theory, folder: Path) -> list[Path]:
    """Draw figure 7, a row of panels a beta: folder/bank_error_winrate.{pdf,png,csv}; returns the paths."""
    plt = style.pyplot()
    rows, total = bank_error_winrate_rows(settings), settings.samples_per_prompt
    size = (style.WIDTH * 1.25, 0.3 + 1.75 * len(settings.beta))
    figure, axes = plt.subplots(len(settings.beta), 3, figsize=size, squeeze=False)
    for line, beta in zip(axes, settings.beta, strict=True):
        for axis, panel in zip(line, ("transformation", "noise", "bias"), strict=True):
            _draw(axis, rows, settings, beta=beta, panel=panel)
            axis.set_title(rf"{panel}, $\beta={beta:g}$")
        line[0].set_xlim(0, 1)
        line[0].set_ylim(0, 1)
        line[0].set_ylabel(r"$(T-T(0))\,/\,\Delta_T$")
        for axis in line[1:]:
            _logit_axis(axis, 1 - 1 / total)
            axis.set_ylabel(r"in units of $\Delta_T$")
    axes[-1][0].set_xlabel("reference quantile $q$")
    for axis in axes[-1][1:]:
        axis.set_xlabel(rf"true quantile $q$ (line: $1-1/{total}$)")
    figure.tight_layout(w_pad=1.0, h_pad=0.8)
    _legend(figure, axes[0][0])
    return style.save(figure, folder / "bank_error_winrate", _stamped(rows, total))
