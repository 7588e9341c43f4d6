import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from kappo import compose, places, studies
from kappo.errors import UserError
from kappo.studies import plan
from kappo.study_file import points

TESTS = ("rules_id", "rules_hard")
CHECKOUT = Path(__file__).parent.parent


def stages(*overrides):
    config = compose.compose(list(overrides))
    cell = places.cell(config)
    return {
        "base": cell.base.id,
        "bank": cell.bank.id,
        "calibration": cell.calibration.id,
        "run": cell.run.id,
        "evaluation of the base": places.evaluation_place(config, "base").id,
        "evaluation of the run": places.evaluation_place(config, cell.run.id).id,
    }


EVALUATIONS = {"evaluation of the base", "evaluation of the run"}
RUN = {"run", "evaluation of the run"}
EVERY = {"base", "bank", "calibration", *RUN}


@pytest.mark.parametrize(
    ("override", "changed"),
    [
        ("tracking=disabled", set()),
        ("tracking.project=other", set()),
        ("runtime.threads=4", set()),
        ("runtime.micro_batch_size=2", set()),
        ("paths.results=elsewhere", set()),
        ("eval.k=[1,2]", set()),
        ("eval.bootstrap=500", set()),
        ("beta=0.2", {"calibration", *RUN}),
        ("k=2", {"calibration", *RUN}),
        ("pressure=none", {"calibration", *RUN}),
        ("lr=1e-3", RUN),
        ("seed=1", RUN),
        ("method.loss_scale=per_beta", RUN),
        ("eval.validation_samples=64", RUN),
        ("bank.samples_per_prompt=8", {"bank", "calibration", *RUN}),
        ("rollout.temperature=0.7", {"bank", "calibration", *RUN, *EVALUATIONS}),
        ("replicate=1", {*EVERY, *EVALUATIONS}),
        ("model.layers=3", EVERY),
        ("model.warmup.steps=5", EVERY),
        ("eval.samples_per_problem=512", EVALUATIONS),
    ],
)
def test_a_setting_changes_exactly_the_stages_that_depend_on_it(override, changed):
    before, after = stages(), stages(override)
    assert {name for name in before if before[name] != after[name]} == changed


def test_name_of_the_study_changes_no_id():
    one, other = (places.cell(compose.compose([], {"study": name})) for name in ("one", "other"))
    assert [p.id for p in (one.base, one.bank, one.calibration, one.run)] == [
        p.id for p in (other.base, other.bank, other.calibration, other.run)
    ]


def test_paths_move_folders_only():
    cell = places.cell(compose.compose(["paths.results=elsewhere"]))
    assert cell.run.folder == Path("elsewhere/runs") / cell.run.id
    assert cell.base.folder.parent == Path("elsewhere/models")


def run_python(code, seed="0"):
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=CHECKOUT, check=True
    )
    return json.loads(done.stdout)


HEAVY = ("torch", "transformers", "wandb", "matplotlib")
PROGRAM = f"""
import json, sys
import kappo, kappo.studies, kappo.cli
early = [name for name in {HEAVY} if name in sys.modules]
found = kappo.studies.plan("embedded", ["tracking=disabled"])
ids = [[c.base.id, c.bank.id, c.calibration.id, c.run.id] for c in found.cells]
print(json.dumps([ids, early, [name for name in {HEAVY} if name in sys.modules]]))
"""


def test_ids_are_the_same_in_every_process_and_planning_is_light():
    want = [[c.base.id, c.bank.id, c.calibration.id, c.run.id] for c in plan("embedded").cells]
    for seed in ("1", "2"):
        ids, early, late = run_python(PROGRAM, seed)
        assert ids == want
        assert early == late == []


def test_import_of_the_package_alone_is_lighter_still():
    heavy = (*HEAVY, "hydra", "pyarrow", "scipy")
    code = f"import json, sys, kappo; print(json.dumps([n for n in {heavy} if n in sys.modules]))"
    assert run_python(code) == []


def test_points_expand_lists_in_order():
    grid = [{"method": "apo", "k": [1, 2], "beta": [0.1, 0.2]}, {"method": "apo", "k": 8}]
    assert points(grid) == [
        {"method": "apo", "k": 1, "beta": 0.1},
        {"method": "apo", "k": 1, "beta": 0.2},
        {"method": "apo", "k": 2, "beta": 0.1},
        {"method": "apo", "k": 2, "beta": 0.2},
        {"method": "apo", "k": 8},
    ]


GRID = "grid=[{{method:apo,pressure:binary,k:{k},beta:[0.1],lr:[6e-4]}}]"


def test_cells_are_replicates_by_grid():
    found = plan("embedded", [GRID.format(k="[1,4]")], replicates=2)
    assert [(c.config.replicate, c.config.k) for c in found.cells] == [(0, 1), (0, 4), (1, 1), (1, 4)]
    assert len({c.bank.id for c in found.cells}) == 2
    assert len({c.calibration.id for c in found.cells}) == 4
    assert found.runs(1) == found.cells[2:]
    assert set(found.tests) == {(r, t) for r in (0, 1) for t in (*TESTS, "validation", "training_problems")}
    assert found.tests[1, "rules_hard"].data.split == "hard"
    assert found.tests[1, "rules_hard"].replicate == 1


def test_equal_runs_are_one():
    assert len(plan("embedded", [GRID.format(k="[1,2,1]")]).cells) == 2
    assert len(plan("embedded", [GRID.format(k="[1,2]"), "k=4"]).cells) == 1


def test_overrides_reach_every_cell_and_win_over_the_study():
    found = plan("embedded", ["train.steps=5", "bank.samples_per_prompt=4", "lr=1e-3"])
    assert {(c.config.train.steps, c.config.bank.samples_per_prompt, c.config.lr) for c in found.cells} == {
        (5, 4, 1e-3)
    }
    assert plan("embedded").cells[0].config.bank.samples_per_prompt == 30


def test_overrides_of_the_study_itself():
    found = plan("embedded", ["data.test=[rules_id]", "replicates=[3]"])
    assert found.study.data.test == ["rules_id"]
    assert list(found.tests) == [(3, "rules_id"), (3, "validation"), (3, "training_problems")]
    assert list(plan("embedded", ["figures=[at_k]"]).tests) == [(0, "rules_id"), (0, "rules_hard")]


def test_the_training_problems_are_evaluated_apart():
    config = plan("embedded").tests[0, "training_problems"]
    assert (config.data.split, config.eval.samples_per_problem, config.eval.k) == ("train", 16, [1])


ARM = "grid=[{{method:apo,pressure:binary,k:4,beta:[0.1,0.3],arm:{arm}}}]"


def test_arms_set_runs_apart():
    assert [c.arm for c in plan("embedded", [ARM.format(arm="'beta {beta}'")]).cells] == ["beta 0.1", "beta 0.3"]
    assert [c.arm for c in plan("embedded", [ARM.format(arm="same")]).cells] == ["same", "same"]
    with pytest.raises(UserError, match="the entry sets no 'lr'"):
        plan("embedded", [ARM.format(arm="'{lr}'")])


def test_several_studies_in_one_workflow():
    found = studies.plans("embedded,embedded_code")
    assert list(found) == ["embedded", "embedded_code"]
    for p in found.values():
        assert studies.find(list(found.values()), "run", p.cells[-1].run.id) == p.cells[-1]
    with pytest.raises(UserError, match="two of these studies have the same name"):
        studies.plans("embedded,embedded")


def test_a_missing_table_or_figure_is_made_again(tmp_path):
    found = plan("embedded", [f"paths.results={tmp_path}"])
    folders = [found.folder / name for name in ("tables", "figures", "evaluations", "../evaluations/e")]
    indexes = [folders[2] / f"{test}-r{replicate}.json" for replicate, test in found.tests]
    digest = hashlib.sha256(b"x").hexdigest()

    def finish():
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "made.csv").write_text("x")
            (folder / "manifest.json").write_text(f'{{"files": {{"made.csv": "{digest}"}}}}')
        for index in indexes:
            index.write_text('[{"folder": "../../evaluations/e"}]')
        found.drop_stale_marks()

    def left():
        return [path.is_file() for path in (indexes[0], folders[0] / "manifest.json", folders[1] / "manifest.json")]

    faults = {
        "figure gone": (lambda: (folders[1] / "made.csv").unlink(), [True, True, False]),
        "figure changed": (lambda: (folders[1] / "made.csv").write_text("y"), [True, True, False]),
        "table emptied": (lambda: (folders[0] / "made.csv").write_text(""), [True, False, False]),
        "tables gone": (lambda: shutil.rmtree(folders[0]), [True, False, False]),
        "index gone": (lambda: indexes[0].unlink(), [False, False, False]),
        "samples gone": (lambda: (folders[3] / "made.csv").unlink(), [False, False, False]),
    }
    for fault, (happens, want) in faults.items():
        finish()
        assert left() == [True, True, True], fault
        happens()
        found.drop_stale_marks()
        assert left() == want, fault


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["grid=[]"], r"grid = \[\]: expected at least one entry"),
        (["grid=[3]"], r"grid\[0\] = 3: expected settings"),
        (["grid=[{method:apo,pressure:binary,kk:[2]}]"], r"grid\[0\] sets 'kk': did you mean 'k'"),
        (["grid=[{method:apoo}]"], "method = 'apoo'.*did you mean 'apo'"),
        (["grid=[{method:apo,pressure:none,k:[4]}]"], "k = 4 with pressure = none"),
        (["replicates=[]"], r"replicates = \[\]: expected at least one"),
        (["replicates=[1,1]"], r"replicates = \[1, 1\]: expected at least one, each a different"),
        (["replicates=[-1]"], r"replicates = \[-1\]: expected at least one, each a different whole number >= 0"),
        (["replicates=3"], "replicates = 3: expected a list"),
        (["grid=[{method:apo,pressure:binary,k:[]}]"], r"grid\[0\].k = \[\]: expected at least one value"),
        (["k=1,2"], "k=1,2: one value expected"),
        (["data.test=[]"], r"data.test = \[\]: expected at least one"),
        (["name=../x"], "name = .*names a folder"),
        (["name=runs"], "name = 'runs'.*shared by all studies"),
        (["figures=[at_k,at_k]"], "expected each once"),
        (["figures=[tuning,at_k]"], "tuning by itself"),
        (["bank=3"], "bank = 3: a group of settings; set one of bank.samples_per_prompt"),
        (["grid=[{method:apo,pressure:binary,data.problems:64}]"], "sets 'data.problems'.*what all runs share"),
        (["grid=[{method:apo,pressure:binary,paths.results:x}]"], "sets 'paths.results'"),
        (["figures=[pass_at_q]"], "'pass_at_q': expected one of 'at_k'"),
        (["train.stepz=3"], "train.stepz = 3: no such setting"),
        (["k=2", "eval.samples_per_problem=64", "eval.k=[1]"], "k_eval = 128 with 64 samples a problem"),
        (["train.prompts_per_step=1000"], "train.prompts_per_step = 1000 with data.problems = 512"),
        (["replicates=[1"], "cannot be parsed"),
    ],
)
def test_bad_studies(overrides, message):
    with pytest.raises(UserError, match=message):
        plan("embedded", overrides)


CLAIM = {"text": "c", "left": {"method": "apo", "k": 1}, "right": {"method": "base"}, "split": "id", "k_eval": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"left": {"method": "apoo", "k": 1}}, r"no arm {method: apoo, k: 1}; did you mean '{method: apo, "),
        ({"left": {"method": "apo", "k": 8}}, "no arm {method: apo, k: 8}"),
        ({"left": {"method": "apo", "k": 1, "arm": "cold"}}, 'no arm {method: apo, k: 1, arm: "cold"}'),
        ({"left": {"method": "apo", "k": 1, "pressure": "winrate"}}, "no arm {method: apo, pressure: winrate, k: 1}"),
        ({"split": "hrad"}, "split = 'hrad'; did you mean 'hard'"),
        ({"split": "validation"}, "split = 'validation'; there are: hard, id"),
        ({"k_eval": 1000}, "k_eval = 1000 with 256 samples a problem"),
        ({"at_most": -0.1}, "at_least = 0.0 lies above at_most = -0.1"),
        ({"left": {"method": "base"}}, "left and right are the same arm"),
    ],
)
def test_claims_are_about_the_study(tmp_path, monkeypatch, change, message):
    study = OmegaConf.to_container(OmegaConf.load(CHECKOUT / "conf/study/embedded.yaml"))
    monkeypatch.chdir(tmp_path)
    for claims in ([{**CLAIM, "at_least": 0.0}], [{**CLAIM, "at_least": 0.0, **change}]):
        path = tmp_path / "conf" / "study" / "own.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("# @package _global_\n" + OmegaConf.to_yaml({**study, "claims": claims}))
        if claims[0] == {**CLAIM, "at_least": 0.0}:
            plan("own")
            compose._composed.cache_clear()
    with pytest.raises(UserError, match=message):
        plan("own")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: own\n", "first line must be '# @package _global_'"),
        ("# @package _global_\nname: [own\n", "not valid YAML: .*line 2"),
        ("# @package _global_\nname: own\n\tmodel: x\n", "not valid YAML"),
        ("# @package _global_\nname: ${nope}\n", "cannot be resolved: .*nope"),
        ("# @package _global_\ndefaults: [own]\n", "cannot be"),
        ("# @package _global_\nname: a\nname: b\n", "not valid YAML|cannot be"),
        ("", "first line must be"),
    ],
)
def test_broken_study_files(tmp_path, monkeypatch, text, message):
    (tmp_path / "conf" / "study").mkdir(parents=True)
    (tmp_path / "conf" / "study" / "own.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message):
        plan("own")


@pytest.mark.parametrize("replicates", [0, -2])
def test_number_of_replicates(replicates):
    with pytest.raises(UserError, match=f"replicates = {replicates}"):
        plan("embedded", [], replicates)


def test_unknown_study():
    with pytest.raises(UserError, match=r"study = 'embeded': no file conf/study/embeded.yaml; did you mean 'embedded'"):
        plan("embeded")


def test_local_conf_is_searched_first(tmp_path, monkeypatch):
    for name, text in {
        "method/mine.yaml": "_target_: kappo.methods.apo.APO\nloss_scale: per_beta\n",
        "tracking/offline.yaml": "mode: offline\nproject: local\n",
        "study/own.yaml": (CHECKOUT / "conf/study/embedded.yaml").read_text().replace("name: embedded", "name: own"),
    }.items():
        (tmp_path / "conf" / name).parent.mkdir(parents=True)
        (tmp_path / "conf" / name).write_text(text)
    shipped = compose.compose([])
    monkeypatch.chdir(tmp_path)
    local = compose.compose([])
    assert {"apo", "mine"} <= set(compose.choices("method"))
    assert compose.compose(["method=mine"]).method.loss_scale == "per_beta"
    assert (local.method, local.tracking.project) == (shipped.method, "local")
    assert plan("own").study.name == "own"
    monkeypatch.undo()
    assert compose.compose([]) == shipped
    with pytest.raises(UserError, match="method = 'mine'"):
        compose.compose(["method=mine"])


def test_resolved_configs_are_written_once(tmp_path):
    found = plan("embedded", [f"paths.results={tmp_path}"])
    found.write()
    files = {
        path: path.stat().st_mtime_ns
        for path in [*(tmp_path / "cells").iterdir(), *(tmp_path / "embedded" / "cells").iterdir()]
    }
    assert {found.cell_file(c.run.id) for c in found.cells} <= set(files)
    for c in found.cells:
        assert compose.check(OmegaConf.to_container(OmegaConf.load(found.cell_file(c.run.id)))) == c.config
    found.write()
    assert {path: path.stat().st_mtime_ns for path in files} == files


def test_overrides_with_a_plus_win_over_the_grid():
    assert {c.config.k for c in plan("embedded", ["++k=8"]).cells} == {8}


def test_test_sets_ignore_what_is_said_of_the_training_data():
    plain_plan, changed = plan("embedded"), plan("embedded", ["data.problems=256"])
    assert changed.cells[0].bank.id != plain_plan.cells[0].bank.id
    assert changed.test_slice(0, "rules_hard") == plain_plan.test_slice(0, "rules_hard")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("replicate=3", "replicate is decided by the study"),
        ("bank={samples_per_prompt:4}", "one setting at a time"),
        ("pressure.k=8", "it follows"),
        ("k=interval(1,4)", "expected one value"),
        ("method=glob(*)", "expected one value"),
        ("figures=[]", "expected at least one"),
        ("paths.results=''", "expected a folder"),
        ("grid=[{1:2}]", r"grid\[0\] sets 1"),
        ("grid=[{method:apo,replicate:[0,1]}]", r"grid\[0\] sets 'replicate'"),
        ("settings={data:{problems:16}}", "data = "),
    ],
)
def test_what_would_be_ignored_or_contradict_is_refused(override, message):
    with pytest.raises(UserError, match=message):
        plan("embedded", [override])


def test_test_sets_ignore_training_data_however_it_is_written():
    for text in ("data.problems=256", "+data.problems=256", "++data.problems=256"):
        assert plan("embedded", [text]).tests[0, "rules_hard"].data.problems == 96


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["data.split=validation"], "split"),
        (["data=rules_hard", "train.prompts_per_step=16"], "'hard' is used as data"),
        (["data@validation=rules_id"], "'id' is used as validation"),
        (["data.test=[rules_id,rules_validation]"], "'validation' is used as validation"),
        (["data.test=[rules]"], "'train' is used as data"),
        (["data.test=[programs_id]"], "a set of task programs, data.train is of task rules"),
        (["data@validation=programs_validation"], "data is of task rules, validation of task programs"),
        (["data=programs", "data@validation=programs_validation"], "pressure = binary with data of task programs"),
        (["pressure.zero=drop"], "pressure.zero, pressure.estimator with dpo on the regularization side"),
        (["method=sft"], "no file conf/method/sft.yaml"),
    ],
)
def test_data_that_do_not_go_together(overrides, message):
    with pytest.raises(UserError, match=message):
        plan("embedded", overrides)


def test_stale_marks_are_dropped(tmp_path):
    found = plan("smoke", [f"paths.results={tmp_path}"])
    bank = found.cells[0].bank
    bank.folder.mkdir(parents=True)
    (bank.folder / "done.json").write_text("{}")
    index = found.folder / "evaluations" / "rules_id-r0.json"
    index.parent.mkdir(parents=True)
    index.write_text('[{"folder": "nowhere"}]')
    found.drop_stale_marks()
    assert not (bank.folder / "done.json").exists()
    assert not index.exists()
