# Base model, reference bank, coefficients: shared by every study with the same settings.


rule base:
    output:
        f"{RESULTS}/models/{{base}}/done.json",
    shell:
        "{KAPPO} base --cell {CELLS}/{wildcards.base}.yaml"


rule bank:
    input:
        lambda w: f"{RESULTS}/models/{PLAN.of('bank', w.bank).base.id}/done.json",
    output:
        f"{RESULTS}/banks/{{bank}}/done.json",
    shell:
        "{KAPPO} bank --cell {CELLS}/{wildcards.bank}.yaml"


rule calibrate:
    # All coefficients of a bank in one job without torch.
    input:
        f"{RESULTS}/banks/{{bank}}/done.json",
    output:
        f"{STUDY}/calibrated/{{bank}}.txt",
    params:
        grids=lambda w: PLAN.calibrations(w.bank),
    shell:
        "for grid in {params.grids:q}; do {PYTHON} -m kappo calibrate {RESULTS}/banks/{wildcards.bank}"
        " --results {RESULTS} --cell {CELLS}/{wildcards.bank}.yaml $grid; done > {output}"
