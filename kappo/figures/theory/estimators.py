"""Two estimates of a_k from a bank: the paper's plug-in, and the posterior's mean; their bias and their risk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from kappo.figures import style
from kappo.figures.rows import Row
from kappo.figures.theory.optimum import digits
from kappo.pressure.binary import Binary
from kappo.theory import binary, finite_bank

if TYPE_CHECKING:
    from kappo.study_file import Theory

ESTIMATORS: tuple[Literal["plug_in", "posterior"], ...] = ("plug_in", "posterior")
Q = np.exp(-np.logaddexp(0.0, -np.linspace(-7, 7, 141)))


def estimators_rows(settings: Theory) -> list[Row]:
    """Rows estimator, k, beta, p_ref, exact, sigma, bias, rmse of a_k, exact (eq. 151), at p_ref in (0, 1), k > 1."""
    total, made = settings.samples_per_prompt, []
    counts = np.arange(total + 1)
    bank = (np.arange(total) < counts[:, None]).astype(np.float64)
    for beta in settings.beta:
        for k in (k for k in settings.k if k > 1):
            exact = binary.solve(binary.logit(Q), k, beta).a
            for name in ESTIMATORS:
                error = finite_bank.error(Binary(k, beta, estimator=name).fit(bank).a, exact, Q)
                rmse = np.hypot(error.sigma, error.bias)
                for q, a, sigma, bias, risk in zip(Q, exact, error.sigma, error.bias, rmse, strict=True):
                    about: Row = {"estimator": name, "k": k, "beta": beta, "p_ref": float(q), "exact": float(a)}
                    made.append({**about, "sigma": float(sigma), "bias": float(bias), "rmse": float(risk)})
    return made


def estimators(settings: Theory, folder: Path) -> list[Path]:
    """Draw bias and root mean square error of both, a row of panels a beta: folder/estimators.{pdf,png,csv}."""
    plt = style.pyplot()
    rows, total = estimators_rows(settings), settings.samples_per_prompt
    size = (style.WIDTH, 0.3 + 1.75 * len(settings.beta))
    figure, axes = plt.subplots(len(settings.beta), 2, figsize=size, squeeze=False, sharex=True)
    for line, beta in zip(axes, settings.beta, strict=True):
        for axis, column, label in zip(line, ("bias", "rmse"), ("bias", "root mean square error"), strict=True):
            for k in dict.fromkeys(row["k"] for row in rows):
                for name, dashes in zip(ESTIMATORS, ("-", "--"), strict=True):
                    own = [r for r in rows if (r["estimator"], r["k"], r["beta"]) == (name, k, beta)]
                    look = {"color": style.COLOURS[settings.k.index(k) % len(style.COLOURS)], "linestyle": dashes}
                    text = f"$k={k}$, {'plug-in' if name == 'plug_in' else 'posterior mean'}"
                    axis.plot([r["p_ref"] for r in own], [r[column] for r in own], label=text, **look)
            axis.set_xscale("logit")
            axis.set_xlim(Q[0], Q[-1])
            axis.set_xticks((0.001, 1 / total, 0.5, 0.999), ["0.001", f"1/{total}", "0.5", "0.999"])
            axis.minorticks_off()
            axis.set_title(rf"{label} of $a_k$, $\beta={beta:g}$")
    for axis in axes[-1]:
        axis.set_xlabel(r"true $p_{\mathrm{ref}}$")
    figure.tight_layout(w_pad=1.2, h_pad=0.8)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=3, frameon=False)
    return style.save(figure, folder / "estimators", digits(rows))
