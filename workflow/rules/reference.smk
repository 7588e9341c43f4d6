# Base model, reference bank, coefficients: shared by every study with the same settings.


rule base:
    output:
        f"{RESULTS}/models/{{base}}/done.json",
    message:
        "base model {wildcards.base}"
    shell:
        "{KAPPO} base --cell {CELLS:q}/{wildcards.base}.yaml"


rule bank:
    input:
        lambda w: f"{RESULTS}/models/{PLAN.of('bank', w.bank).base.id}/done.json",
    output:
        f"{RESULTS}/banks/{{bank}}/done.json",
    message:
        "reference bank {wildcards.bank}"
    shell:
        "{KAPPO} bank --cell {CELLS:q}/{wildcards.bank}.yaml"


rule calibrate:
    # One job a coefficient table, each about a second without torch: a new beta then reruns its own table and no other.
    input:
        lambda w: f"{RESULTS}/banks/{PLAN.of('calibration', w.calibration).bank.id}/done.json",
    output:
        f"{RESULTS}/calibration/{{calibration}}/done.json",
    params:
        bank=lambda w: f"{RESULTS}/banks/{PLAN.of('calibration', w.calibration).bank.id}",
        arguments=lambda w: PLAN.calibrate_arguments(w.calibration),
    message:
        "coefficients {wildcards.calibration}"
    shell:
        "{KAPPO} calibrate {params.bank:q} --results {RESULTS:q} --cell {CELLS:q}/study.yaml {params.arguments}"
