# One process a replicate and test set: the base model and every selected run.


rule evaluate:
    input:
        base=lambda w: f"{RESULTS}/models/{PLAN.base(int(w.replicate))}/done.json",
        selection=f"{STUDY}/selection/r{{replicate}}.json",
    output:
        f"{STUDY}/evaluations/{{test}}-r{{replicate}}.json",
    params:
        base=lambda w: f"{RESULTS}/models/{PLAN.base(int(w.replicate))}",
        slice=lambda w: PLAN.test_slice(int(w.replicate), w.test),
    message:
        "test on {wildcards.test}, replicate {wildcards.replicate}"
    shell:
        "{KAPPO} evaluate {params.base:q} --selection {input.selection:q} --index {output:q}"
        " --cell {CELLS:q}/test-{params.slice}.yaml"
