import pytest

from kappo.data.programs import Programs
from kappo.errors import UserError
from kappo.models import fresh_tokenizer
from kappo.records import Problem
from kappo.reference import prompts_of


def test_prompts_that_the_vocabulary_cannot_write_are_refused(tokenizer):
    rules = [Problem("p0", "1,2=3;4,5=6;", "", 1), Problem("rules-7", "4,2=8;3,5=?", "5", 1)]
    assert [len(p.token_ids) for p in prompts_of(rules, tokenizer)] == [12, 11]
    with pytest.raises(UserError, match=r"prompt rules-7 = '4,2=8;3,5=\?' .* lacks"):
        prompts_of(rules, fresh_tokenizer(Programs.vocabulary(), 64))
