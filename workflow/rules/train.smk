# One process a run: training and validation.


def selected(w):
    """The runs of a study's replicate."""
    return PLANS[w.study].runs(int(w.replicate))


rule train:
    input:
        lambda w: f"{RESULTS}/banks/{stage('run', w.run).bank.id}/done.json",
        lambda w: f"{RESULTS}/calibration/{stage('run', w.run).calibration.id}/done.json",
    output:
        f"{RESULTS}/runs/{{run}}/done.json",
    params:
        cell=cell("run"),
    message:
        "train and validate {wildcards.run}"
    shell:
        "{KAPPO} train --cell {params.cell:q}"


rule select:
    input:
        lambda w: [f"{RESULTS}/runs/{c.run.id}/done.json" for c in selected(w)],
    output:
        f"{STUDY}/selection/r{{replicate}}.json",
    params:
        runs=lambda w: [f"{RESULTS}/runs/{c.run.id}" for c in selected(w)],
        arms=lambda w: [c.arm or "-" for c in selected(w)],
    message:
        "select checkpoints of {wildcards.study}, replicate {wildcards.replicate}"
    shell:
        "{KAPPO} select {params.runs:q} --arms {params.arms:q} -o {output:q}"


rule compare:
    input:
        lambda w: [f"{RESULTS}/runs/{c.run.id}/done.json" for c in PLANS[w.study].cells],
    output:
        f"{STUDY}/tables/tuning.csv",
    params:
        runs=lambda w: [f"{RESULTS}/runs/{c.run.id}" for c in PLANS[w.study].cells],
    message:
        "compare the configurations of {wildcards.study}"
    shell:
        "{KAPPO} compare {params.runs:q} -o {RESULTS:q}/{wildcards.study}/tables"
