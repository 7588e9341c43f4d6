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
    PLANS = studies.plans(
        str(config.get("study", "embedded,embedded_code,theory")),
        overrides=studies.split_settings(str(config.get("set") or "")),
        replicates=config.get("replicates"),
    )
    for plan in reversed(PLANS.values()):  # a shared stage belongs to the first study
        plan.write()
        plan.drop_stale_marks()
except UserError as error:
    raise WorkflowError(f"\n{error}")

if runner := os.environ.pop("KAPPO_RUNNER", ""):
    end_with_parent(int(runner))
os.environ["KAPPO_WORKFLOW"] = "1"
RESULTS = str(next(iter(PLANS.values())).results)
STUDY = f"{RESULTS}/{{study}}"


def stage(kind, id):
    return studies.find(list(PLANS.values()), kind, id)


def cell(kind):
    """The resolved config of the stage that the rule's wildcard names."""
    return lambda w: f"{RESULTS}/cells/{w[kind]}.yaml"


PYTHON = shlex.quote(sys.executable)
KAPPO = f"exec {PYTHON} -m kappo"  # exec: a job sees its workflow end, and ends too


wildcard_constraints:
    study="[^/]+",


include: "workflow/rules/reference.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/theory.smk"


rule all:
    default_target: True
    input:
        [str(plan.target) for plan in PLANS.values()],
