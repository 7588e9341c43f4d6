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
    message:
        "tables"
    shell:
        "{KAPPO} tables {input} --k {params.k} --bootstrap {params.bootstrap} -o {STUDY}/tables"


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
        "{KAPPO} figures {input} --figures {params.names} -o {STUDY}/figures --cell {CELLS}/study.yaml"
