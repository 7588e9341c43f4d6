# Base model, reference bank, coefficients: shared by every study with the same settings.


rule base:
    output:
        f"{RESULTS}/models/{{base}}/done.json",
    params:
        cell=cell("base"),
    message:
        "base model {wildcards.base}"
    shell:
        "{KAPPO} base --cell {params.cell:q}"


rule bank:
    input:
        lambda w: f"{RESULTS}/models/{stage('bank', w.bank).base.id}/done.json",
    output:
        f"{RESULTS}/banks/{{bank}}/done.json",
    params:
        cell=cell("bank"),
    message:
        "reference bank {wildcards.bank}"
    shell:
        "{KAPPO} bank --cell {params.cell:q}"


rule calibrate:
    # One job a coefficient table, each about a second without torch: a new beta then reruns its own table and no other.
    input:
        lambda w: f"{RESULTS}/banks/{stage('calibration', w.calibration).bank.id}/done.json",
    output:
        f"{RESULTS}/calibration/{{calibration}}/done.json",
    params:
        bank=lambda w: f"{RESULTS}/banks/{stage('calibration', w.calibration).bank.id}",
        cell=cell("calibration"),
    message:
        "coefficients {wildcards.calibration}"
    shell:
        "{KAPPO} calibrate {params.bank:q} --results {RESULTS:q} --cell {params.cell:q}"
