from types import SimpleNamespace

import pytest

from kappo.data.template import Template, stop_token_ids
from kappo.errors import UserError
from kappo.records import Problem
from kappo.reference import prompts_of
from tests.data.made import data

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% endif %}{% endif %}"
)
DATED = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}"
    "{% if not date_string is defined %}{% set date_string = strftime_now('%d %b %Y') %}{% endif %}"
    "Today: {{ date_string }}|"
    "{% for m in messages if m.role != 'system' %}{{ m.role }}:{{ m.content }}<|eot|>{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system turn here') }}{% endif %}x"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin|>", "<|eot|>"]


def tokenizer(chat_template=None, bos=None):
    """A tokenizer of bytes with a few special tokens; with `bos` it puts that in front, as Llama's does."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({token: i for i, token in enumerate([*SPECIAL, *letters])}, []))
    made.add_special_tokens(SPECIAL)
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    if bos:
        made.post_processor = processors.TemplateProcessing(f"{bos} $A", special_tokens=[(bos, SPECIAL.index(bos))])
    found = PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<|endoftext|>", pad_token="<|endoftext|>", bos_token=bos
    )
    found.chat_template = chat_template
    return found


def ids_of(*tokens):
    return [SPECIAL.index(token) for token in tokens]


def test_chat_is_the_tokenizers_own_template_ready_for_an_answer():
    chat = tokenizer(CHATML)
    template = Template("chat", r"{problem} in \boxed{}", system="Be brief.")
    text = template.text({"problem": "2+2"})
    ids = template.token_ids(chat, text)
    assert all(isinstance(id, int) for id in ids)
    assert chat.decode(ids) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n2+2 in \\boxed{}<|im_end|>\n<|im_start|>assistant\n"
    )
    assert ids[0] == SPECIAL.index("<|im_start|>")
    bare = Template("chat", "{problem}").token_ids(chat, "hi")
    assert chat.decode(bare) == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"


def test_arguments_reach_the_chat_template_and_null_does_not():
    chat = tokenizer(CHATML)
    for arguments, end in (({"enable_thinking": False}, "<think></think>"), ({"enable_thinking": None}, "assistant\n")):
        template = Template("chat", "{problem}", chat_arguments=arguments)
        assert chat.decode(template.token_ids(chat, "x")).endswith(end)
    dated = tokenizer("{{ date_string if date_string is defined else 'no date' }}")
    for arguments, written in (({"date_string": "1 May"}, "1 May"), ({"date_string": None}, "no date")):
        template = Template("chat", "{problem}", chat_arguments=arguments)
        assert dated.decode(template.token_ids(dated, "x")) == written


def test_shipped_templates_give_the_same_prompt_on_every_day():
    chat = tokenizer(DATED, bos="<|begin|>")
    template = data("math500").template
    ids = template.token_ids(chat, template.text({"problem": "p"}))
    assert chat.decode(ids).startswith("<|begin|>Today: 26 Jul 2024|user:p\nPlease reason")
    assert ids.count(SPECIAL.index("<|begin|>")) == 1


def test_base_is_the_text_with_what_the_tokenizer_puts_in_front():
    template = Template("base", "Q: {problem}\nA:", system="Solve.")
    text = template.text({"problem": "2+2"})
    assert tokenizer().decode(template.token_ids(tokenizer(), text)) == "Solve.\n\nQ: 2+2\nA:"
    llama = tokenizer(bos="<|begin|>")
    assert llama.decode(Template("base", "{problem}").token_ids(llama, "hi")) == "<|begin|>hi"


def test_fields_are_put_in_at_once_and_other_braces_stay():
    template = Template("base", r"{problem} {format} \frac{a}{b} {unknown} {}")
    assert template.text({"problem": "{format}", "format": r"\1 {problem}"}) == (
        r"{format} \1 {problem} \frac{a}{b} {unknown} {}"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"user": "{probelm}"}, r"expected a text with \{problem\}.*'probelm'"),
        ({"user": "Solve it."}, r"expected a text with \{problem\}"),
        ({"user": "{problem}", "chat_arguments": {"tokenize": False}}, r"chat_arguments\.tokenize is kappo's own"),
    ],
)
def test_impossible_templates(settings, message):
    with pytest.raises(ValueError, match=message):
        Template("chat", **settings)


def test_a_tokenizer_without_a_chat_template_says_the_way_out():
    for call in (lambda t: t.token_ids(tokenizer(), "x"), lambda t: t.ends(tokenizer())):
        with pytest.raises(UserError, match=r"no chat template: set data\.template\.kind=base"):
            call(Template("chat", "{problem}"))


def test_a_chat_template_that_refuses_says_why():
    with pytest.raises(UserError, match=r"refuses the prompt: no system turn here.*data\.template\.system"):
        Template("chat", "{problem}", system="s").token_ids(tokenizer(NO_SYSTEM), "x")


@pytest.mark.parametrize(
    ("template", "chat_template", "eos", "stops"),
    [
        (None, None, None, ["<|endoftext|>"]),
        (Template("base", "{problem}"), CHATML, None, ["<|endoftext|>"]),
        (Template("chat", "{problem}"), CHATML, None, ["<|endoftext|>", "<|im_end|>"]),
        (Template("chat", "{problem}"), DATED, None, ["<|endoftext|>", "<|eot|>"]),
        (Template("chat", "{problem}"), "{{ messages[-1].content }}", None, ["<|endoftext|>"]),
        (Template("base", "{problem}"), None, 3, ["<|endoftext|>", "<|begin|>"]),
        (Template("base", "{problem}"), None, [2, 4], ["<|endoftext|>", "<|im_end|>", "<|eot|>"]),
        (Template("base", "{problem}", stop=["<|eot|>"]), None, None, ["<|endoftext|>", "<|eot|>"]),
    ],
)
def test_stop_tokens(template, chat_template, eos, stops):
    generation = SimpleNamespace(eos_token_id=eos)
    assert stop_token_ids(tokenizer(chat_template), template, generation) == ids_of(*stops)


def test_a_stop_that_is_no_single_token():
    with pytest.raises(UserError, match=r"stop holds '<\|im_end\|', which is 9 tokens.*did you mean '<\|im_end\|>'"):
        Template("base", "{problem}", stop=["<|im_end|"]).ends(tokenizer())
    assert Template("base", "{problem}", stop=["#"]).ends(tokenizer()) == tokenizer()("#")["input_ids"]


def test_a_stop_that_the_vocabulary_lacks(request):
    embedded = request.getfixturevalue("tokenizer")
    with pytest.raises(UserError, match="is no token of this tokenizer"):
        Template("base", "{problem}", stop=["#"]).ends(embedded)


def test_prompts_of_real_data_carry_their_stops():
    chat = tokenizer(CHATML)
    (prompt,) = prompts_of([Problem("p", "hi", "1")], chat, Template("chat", "{problem}"))
    assert chat.decode(prompt.token_ids) == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert prompt.stop == (SPECIAL.index("<|im_end|>"),)
    (bare,) = prompts_of([Problem("p", "hi", "1")], chat)
    assert (chat.decode(bare.token_ids), bare.stop) == ("hi", ())


def test_an_unknown_token_that_ends_a_sequence_too_is_no_fault():
    """As in GPT-2, whose one special token is all of them."""
    chat = tokenizer("<|endoftext|>{{ messages[0].content }}")
    chat.unk_token = "<|endoftext|>"
    (prompt,) = prompts_of([Problem("p", "hi", "1")], chat, Template("chat", "{problem}"))
    assert prompt.token_ids[0] == 0
