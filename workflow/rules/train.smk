# One process a run: training and validation.


rule train:
    input:
        lambda w: f"{RESULTS}/banks/{PLAN.of('run', w.run).bank.id}/done.json",
        lambda w: f"{RESULTS}/calibration/{PLAN.of('run', w.run).calibration.id}/done.json",
    output:
        f"{RESULTS}/runs/{{run}}/done.json",
    message:
        "train and validate {wildcards.run}"
    shell:
        "{KAPPO} train --cell {CELLS:q}/{wildcards.run}.yaml"


rule select:
    input:
        lambda w: [
            f"{RESULTS}/runs/{run}/done.json" for run in PLAN.runs(int(w.replicate))
        ],
    output:
        f"{STUDY}/selection/r{{replicate}}.json",
    params:
        runs=lambda w: [f"{RESULTS}/runs/{run}" for run in PLAN.runs(int(w.replicate))],
    message:
        "select checkpoints, replicate {wildcards.replicate}"
    shell:
        "{KAPPO} select {params.runs:q} -o {output:q}"
