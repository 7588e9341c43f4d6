# The papers' mathematics: tables and figures in one job; no language model.


rule theory:
    output:
        f"{STUDY}/manifest.json",
    params:
        settings=lambda w: PLANS[w.study].arguments(),
    message:
        "theory figures of {wildcards.study}"
    shell:
        "{KAPPO} theory {params.settings} -o {RESULTS:q}/{wildcards.study}"
