import pytest

from kappo import compose
from kappo.compose import choices, groups, sweep_points
from kappo.config import Bank, Config, build, choice_name, plain
from kappo.errors import UserError, near_misses
from kappo.studies import plan


def refusal(*overrides):
    with pytest.raises(UserError) as caught:
        compose.compose(list(overrides))
    return str(caught.value)


CHOICES = [(group, choice) for group in groups() if group != "study" for choice in choices(group)]


@pytest.mark.parametrize(("group", "choice"), CHOICES)
def test_every_choice_composes(group, choice):
    other = ["method=rloo", "k=1"]
    needed = {
        "pkpo": ["pressure=none", "k=2"],
        "qrpo": ["pressure=winrate"],
        **dict.fromkeys(("task_reward", "tempered", "sharpening"), other),
    }
    config = compose.compose([f"{group}={choice}", *needed.get(choice, [])])
    assert isinstance(config, Config)
    assert compose.check(plain(config)) == config


def test_every_group_has_choices():
    assert {"model", "data", "method", "pressure", "rollout", "train", "eval", "tracking", "study"} <= set(groups())
    assert all(choices(group) for group in groups())


TRAINED = [name for name in choices("study") if name != "theory"]


@pytest.mark.parametrize("name", TRAINED)
def test_every_study_plans(name):
    found = plan(name)
    assert found.study.name == name
    assert found.cells
    sets = {test for _, test in found.tests}
    assert sets - {"validation", "training_problems"} == set(found.study.data.test)
    assert len(found.tests) == len(found.study.replicates) * len(sets)


@pytest.mark.parametrize("name", TRAINED)
def test_claims_of_every_study_are_about_its_arms_and_splits(name):
    found = plan(name)
    arms = {("base", 0, ""), *((choice_name(c.config.method), c.config.k, c.arm) for c in found.cells)}
    for claim in found.study.claims:
        assert {(side.method, side.k, side.arm) for side in (claim.left, claim.right)} <= arms, claim
        assert claim.split in {config.data.split for config in found.tests.values()}, claim
        assert claim.k_eval in found.cells[0].config.eval.k, claim


def test_top_level_settings_reach_their_readers():
    config = compose.compose(["k=4", "beta=0.3", "lr=1e-3"])
    assert (config.pressure.k, config.pressure.beta, config.train.lr) == (4, 0.3, 1e-3)
    assert compose.compose(["pressure=none", "beta=0.3"]).pressure.beta == 0.3
    assert compose.compose(["data@validation=rules_id"]).validation.split == "id"


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("train.stepz=3", ("train.stepz = 3", "no such setting", "'train.steps'")),
        ("bta=0.1", ("bta = 0.1", "no such setting", "'beta'")),
        ("model.layer=2", ("model.layer = 2", "'model.layers'")),
        ("method=apoo", ("method = 'apoo'", "conf/method/apoo.yaml", "did you mean 'apo'")),
        ("method=zzz", ("method = 'zzz'", "there are: ", "apo")),
        ("data@validation=rulez_id", ("data@validation = 'rulez_id'", "'rules_id'")),
        ("tracking.mode=ofline", ("tracking.mode = 'ofline'", "one of ", "did you mean 'offline'")),
        ("k=0", ("k = 0", "a whole number >= 1 and <= 1000")),
        ("k=1001", ("k = 1001", "a whole number >= 1 and <= 1000")),
        ("beta=-1", ("beta = -1", "a finite number >= 1e-06 and <= 100")),
        ("beta=nan", ("beta = nan", "a finite number")),
        ("lr=inf", ("lr = inf", "train.lr = inf", "a finite number > 0")),
        ("lr=0", ("lr = 0", "a finite number > 0")),
        ("train.steps=abc", ("train.steps = 'abc'", "a whole number >= 1")),
        ("train.steps=1.5", ("train.steps = 1.5", "a whole number >= 1")),
        ("train.steps=true", ("train.steps = True", "a whole number >= 1")),
        ("train.steps=null", ("train.steps = None", "a whole number >= 1")),
        ("beta=true", ("beta = True", "a finite number")),
        ("train.warmup_share=1", ("train.warmup_share = 1", ">= 0 and < 1")),
        ("train.betas=[0.9,1.0]", ("train.betas[1] = 1.0", ">= 0 and < 1")),
        ("train.betas=[0.9]", ("train.betas = [0.9]", "[0.9, 0.99]")),
        ("eval.k=[]", ("eval.k = []", "at least one k")),
        ("eval.k=3", ("eval.k = 3", "a list, each a whole number >= 1")),
        ("eval.k=[1,x]", ("eval.k[1] = 'x'", "a whole number >= 1")),
        ("model=3", ("model = 3", "there are: embedded_tiny")),
        ("paths.results=7", ("paths.results = 7", "text")),
        ("method._target_=kappo.methods.nope.Nope", ("method._target_", "kappo.methods.nope.Nope", "cannot be imp")),
        ("method._target_=kappo.records.sha256", ("method._target_", "expected a dataclass")),
        ("data.level_mix=[1.0]", ("data: level_mix = [1.0]", "expected 8 shares")),
        ("data.split=tset", ("data.split = 'tset'", "one of 'train', 'validation', 'id', 'hard'")),
        ("replicate=-1", ("replicate = -1", "a whole number >= 0")),
        ("k", ("override 'k' cannot be parsed", "Expected key=value")),
        ("=3", ("override '=3'", "expected key=value")),
        ("~method", ("override '~method'", "expected key=value")),
        ("k=1,2", ("k=1,2", "one value expected")),
        ("rollout.max_new_tokens=100", ("max_new_tokens = 100", "max_positions = 64")),
        ("model.head_dim=3", ("model.head_dim = 3", "even")),
        ("eval.k=[1,1]", ("eval.k = [1, 1]", "each once")),
        ("k=(1", ("override 'k=(1' cannot be parsed", "Expected key=value")),
        ("k=[1", ("override 'k=[1' cannot be parsed", "Expected key=value")),
    ],
)
def test_refusals_name_key_value_and_way_out(override, parts):
    message = refusal(override)
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("overrides", "parts"),
    [
        (["eval.k=[1,512]"], ("eval.k = [1, 512]", "eval.samples_per_problem = 256", "raise")),
        (["pressure=none", "k=4"], ("k = 4 with pressure = none", "pressure=binary")),
        (["model.kv_heads=3"], ("model.heads = 4", "model.kv_heads = 3", "multiple")),
        (["k=64"], ("k = 64", "eval.validation_samples = 32", ">= k")),
    ],
)
def test_settings_that_do_not_go_together(overrides, parts):
    message = refusal(*overrides)
    assert "do not go together" in message
    for part in parts:
        assert part in message


def test_all_faults_are_reported_at_once():
    message = refusal("train.steps=0", "model.layers=x", "beta=-1", "eval.bootstrap=1")
    for part in ("train.steps = 0", "model.layers = 'x'", "beta = -1", "eval.bootstrap = 1"):
        assert part in message
    message = refusal("pressure=none", "k=4", "model.kv_heads=3", "eval.k=[512]")
    assert message.count("\n  - ") == 3


@pytest.mark.parametrize("text", ["k=1,2", "method=apo,apo", "k=range(1,3)"])
def test_several_values_need_a_sweep(text):
    with pytest.raises(UserError, match="several values need -m"):
        sweep_points([text], sweeping=False)


def test_sweep_points():
    assert sweep_points(["k=1,2", "beta=0.1", "seed=3,4"], sweeping=True) == [
        [f"k={k}", "beta=0.1", f"seed={seed}"] for k in (1, 2) for seed in (3, 4)
    ]
    assert sweep_points(["eval.k=[1,2]"], sweeping=False) == [["eval.k=[1,2]"]]


def test_build_fills_in_defaults_and_names_what_is_missing():
    assert build(Bank, {"samples_per_prompt": 8}) == Bank(8, 64)
    with pytest.raises(UserError, match="model: missing"):
        build(Config, {})
    with pytest.raises(UserError, match=r"config = 3: expected settings \(samples_per_prompt, prompts_per_chunk\)"):
        build(Bank, 3)


def test_whole_numbers_are_accepted_as_floats():
    lr = compose.compose(["lr=1"]).lr
    assert (lr, type(lr)) == (1.0, float)


def test_choice_names():
    assert choice_name(compose.compose(["pressure=none"]).pressure) == "none"
    assert choice_name(compose.compose([]).method) == "apo"


def test_near_misses():
    assert near_misses("steps", ["step", "lr"]) == "did you mean 'step'?"
    assert near_misses("zz", ["b", "a"]) == "there are: a, b"
    assert near_misses("zz", map(str, range(100, 120))).endswith("(20 in all)")


def test_resolved_yaml_round_trip(tmp_path):
    config = compose.compose(["k=2", "eval.k=[1,2]"])
    (tmp_path / "c.yaml").write_text(compose.to_yaml(config))
    assert compose.check(compose.load(tmp_path / "c.yaml")) == config


def test_unreadable_yaml(tmp_path):
    with pytest.raises(UserError, match="is missing"):
        compose.load(tmp_path / "c.yaml")
    (tmp_path / "c.yaml").write_text("a: [1,")
    with pytest.raises(UserError, match="not a readable YAML"):
        compose.load(tmp_path / "c.yaml")
