# Tables from evaluations, figures from tables; no models.


rule tables:
    input:
        [
            f"{STUDY}/evaluations/{test}-r{replicate}.json"
            for replicate, test in PLAN.tests
        ],
    output:
        f"{STUDY}/tables/at_k.csv",
        f"{STUDY}/tables/summary.txt",
    params:
        k=",".join(map(str, PLAN.cells[0].config.eval.k)),
        bootstrap=PLAN.cells[0].config.eval.bootstrap,
        made_of=PLAN.made_of(),
    message:
        "tables"
    shell:
        "{KAPPO} tables {input:q} --k {params.k} --bootstrap {params.bootstrap} -o {STUDY:q}/tables"


rule figures:
    input:
        f"{STUDY}/tables/at_k.csv",
    output:
        [
            f"{STUDY}/figures/{name}.{kind}"
            for name in PLAN.study.figures
            for kind in ("pdf", "png", "csv")
        ],
    params:
        names=PLAN.study.figures,
    message:
        "figures"
    shell:
        "{KAPPO} figures {input:q} --figures {params.names} -o {STUDY:q}/figures --cell {CELLS:q}/study.yaml"
