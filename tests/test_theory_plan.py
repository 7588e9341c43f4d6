import pytest

from kappo import studies
from kappo.errors import UserError


def test_one_job_with_the_studys_settings():
    found = studies.plan("theory")
    assert found.arguments() == "--k 1,2,4,8 --beta 0.1,0.0005 --samples-per-prompt 30"
    assert str(found.target) == "results/theory/manifest.json"
    assert list(found.cells) == []


def test_settings_of_training_leave_it_alone():
    found = studies.plan("theory", ["train.steps=5", "grid=[]", "tracking=disabled"], replicates=3)
    assert found.arguments() == studies.plan("theory").arguments()


def test_its_own_settings_and_its_place():
    found = studies.plan("theory", ["theory.k=[2]", "theory.samples_per_prompt=8", "paths.results=elsewhere"])
    assert found.arguments() == "--k 2 --beta 0.1,0.0005 --samples-per-prompt 8"
    assert str(found.folder) == "elsewhere/theory"


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("theory.k=[0]", "theory.k[0] = 0"),
        ("theory.k=[]", "k = []"),
        ("theory.k=[2,2]", "each once"),
        ("theory.k=[1]", "above 1"),
        ("theory.bta=[1]", "'beta'"),
        ("train.stepz=1", "'train.steps'"),
    ],
)
def test_what_is_refused(override, said):
    with pytest.raises(UserError) as caught:
        studies.plan("theory", [override])
    assert said in str(caught.value)


def test_a_mark_whose_figures_are_gone_is_dropped(tmp_path):
    found = studies.plan("theory", [f"paths.results={tmp_path}"])
    found.folder.mkdir()
    found.target.write_text('{"files": {"figures/optimum.pdf": "0"}}')
    found.drop_stale_marks()
    assert not found.target.exists()
