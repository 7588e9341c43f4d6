# One process a replicate and set of problems: the base model and every selected run.


def base(w):
    return PLANS[w.study].base(int(w.replicate))


rule evaluate:
    input:
        base=lambda w: f"{RESULTS}/models/{base(w)}/done.json",
        selection=f"{STUDY}/selection/r{{replicate}}.json",
    output:
        f"{STUDY}/evaluations/{{test}}-r{{replicate}}.json",
    params:
        base=lambda w: f"{RESULTS}/models/{base(w)}",
        cell=lambda w: PLANS[w.study].test_file(int(w.replicate), w.test),
    message:
        "test {wildcards.study} on {wildcards.test}, replicate {wildcards.replicate}"
    shell:
        "{KAPPO} evaluate {params.base:q} --selection {input.selection:q} --index {output:q} --cell {params.cell:q}"
