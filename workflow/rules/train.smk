# One process a run: training and validation. The coefficients' list is ancient: a longer list retrains nothing.


rule train:
    input:
        lambda w: f"{RESULTS}/banks/{PLAN.of('run', w.run).bank.id}/done.json",
        lambda w: ancient(f"{STUDY}/calibrated/{PLAN.of('run', w.run).bank.id}.txt"),
    output:
        f"{RESULTS}/runs/{{run}}/done.json",
    shell:
        "{KAPPO} train --cell {CELLS}/{wildcards.run}.yaml"


rule select:
    input:
        lambda w: [
            f"{RESULTS}/runs/{run}/done.json" for run in PLAN.runs(int(w.replicate))
        ],
    output:
        f"{STUDY}/selection/r{{replicate}}.json",
    params:
        runs=lambda w: [f"{RESULTS}/runs/{run}" for run in PLAN.runs(int(w.replicate))],
    shell:
        "{KAPPO} select {params.runs} -o {output}"
