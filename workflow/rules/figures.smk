# Tables from evaluations, figures from tables; no models.


rule tables:
    input:
        lambda w: [
            f"{RESULTS}/{w.study}/evaluations/{test}-r{replicate}.json"
            for replicate, test in PLANS[w.study].tests
        ],
    output:
        f"{STUDY}/tables/manifest.json",
    params:
        cell=f"{STUDY}/cells/study.yaml",
        about=f"{STUDY}/cells/study.json",
        made_of=lambda w: PLANS[w.study].made_of(),
    message:
        "tables of {wildcards.study}"
    shell:
        "{KAPPO} tables {input:q} --results {RESULTS:q} --cell {params.cell:q} --study {params.about:q}"
        " -o {RESULTS:q}/{wildcards.study}/tables"


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
