# One screen: read the study, include the rules, rule all. Settings come from conf/; a study is conf/study/NAME.yaml.
#   snakemake --cores 2 --config study=embedded replicates=3 set='train.steps=50 tracking=disabled'
import os
import shlex
import sys

from snakemake.exceptions import WorkflowError

sys.path.insert(0, workflow.basedir)
from kappo import studies
from kappo.errors import UserError
from kappo.processes import end_with_parent

try:
    if unknown := set(config) - {"study", "set", "replicates"}:
        raise UserError(
            f"--config {sorted(unknown)[0]}=...: expected study, set or replicates"
        )
    PLAN = studies.plan(
        str(config.get("study", "embedded")),
        overrides=studies.split_settings(str(config.get("set") or "")),
        replicates=config.get("replicates"),
    )
    studies.write(PLAN)
    PLAN.drop_stale_marks()
except UserError as error:
    raise WorkflowError(f"\n{error}")

if runner := os.environ.pop("KAPPO_RUNNER", ""):
    end_with_parent(int(runner))
os.environ["KAPPO_WORKFLOW"] = "1"
RESULTS, STUDY = str(PLAN.results), str(PLAN.folder)
CELLS = f"{STUDY}/cells"
PYTHON = shlex.quote(sys.executable)
KAPPO = f"exec {PYTHON} -m kappo"  # exec: a job sees its workflow end, and ends too


include: "workflow/rules/reference.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/figures.smk"


rule all:
    default_target: True
    input:
        f"{STUDY}/tables/at_k.csv",
        rules.figures.output,
