# Tables from evaluations, figures from tables; no models.


def indexes(w, training):
    plan = PLANS[w.study]
    return [
        f"{RESULTS}/{w.study}/evaluations/{test}-r{replicate}.json"
        for replicate, test in plan.tests
        if (test == studies.TRAIN) == training
    ]


rule tables:
    input:
        tests=lambda w: indexes(w, training=False),
        train=lambda w: indexes(w, training=True),
    output:
        f"{STUDY}/tables/manifest.json",
    params:
        claims=f"{STUDY}/cells/claims.json",
        claimed=lambda w: [str(claim) for claim in PLANS[w.study].study.claims],
        k=lambda w: ",".join(map(str, PLANS[w.study].cells[0].config.eval.k)),
        bootstrap=lambda w: PLANS[w.study].cells[0].config.eval.bootstrap,
        made_of=lambda w: PLANS[w.study].made_of(),
    message:
        "tables of {wildcards.study}"
    shell:
        "{KAPPO} tables {input.tests:q} --training-problems {input.train:q} --claims {params.claims:q} --k {params.k}"
        " --bootstrap {params.bootstrap} --results {RESULTS:q} -o {RESULTS:q}/{wildcards.study}/tables"


rule figures:
    input:
        f"{STUDY}/tables/manifest.json",
    output:
        f"{STUDY}/figures/manifest.json",
    params:
        cell=f"{STUDY}/cells/study.yaml",
        names=lambda w: PLANS[w.study].study.figures,
    message:
        "figures of {wildcards.study}"
    shell:
        "{KAPPO} figures {RESULTS:q}/{wildcards.study}/tables --figures {params.names}"
        " -o {RESULTS:q}/{wildcards.study}/figures --cell {params.cell:q}"
