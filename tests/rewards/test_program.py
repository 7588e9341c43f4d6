"""Which program a completion holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kappo.rewards.program import extract

TEXTS = [
    ("one block", "Here.\n```python\nprint(1)\n```\nDone.", "print(1)"),
    ("two blocks: the last", "```python\nprint(1)\n```\nBetter:\n```python\nprint(2)\n```", "print(2)"),
    ("py", "```py\nprint(1)\n```", "print(1)"),
    ("Python3, upper case", "```Python3\nprint(1)\n```", "print(1)"),
    ("words behind the mark", "```python title=main.py\nprint(1)\n```", "print(1)"),
    ("no mark", "```\nprint(1)\n```", "print(1)"),
    ("marked before unmarked", "```python\nprint(1)\n```\nOutput:\n```\n1\n```", "print(1)"),
    ("another language after", "```python\nprint(1)\n```\n```cpp\nint main() {}\n```", "print(1)"),
    ("another language only", "```cpp\nint main() {}\n```", None),
    ("an unmarked sample after", "```\nx = 1\nprint(x)\n```\nprints\n```\n1\n```", "x = 1\nprint(x)"),
    ("an empty last block", "```python\nprint(1)\n```\n```python\n\n```", "print(1)"),
    ("tildes", "~~~python\nprint(1)\n~~~", "print(1)"),
    ("four ticks hold three", "````python\ns = '''\n```\n'''\n````", "s = '''\n```\n'''"),
    ("ticks inside a line", "```python\nprint('```')\n```", "print('```')"),
    ("nested list", "1. a\n   - b\n     ```python\n     if 1:\n         print(1)\n     ```", "if 1:\n    print(1)"),
    ("tab before the fence", "\t```python\n\tprint(1)\n\t```", "print(1)"),
    ("never closed", "```python\nprint(1)\nprint(2)", "print(1)\nprint(2)"),
    ("never closed, opened again", "```python\nprint(1)\n\n```python\nprint(2)\n```", "print(2)"),
    ("thought", "<think>```python\nprint(9)\n```</think>\n```python\nprint(1)\n```", "print(1)"),
    ("thought without its start", "```python\nprint(9)\n```\n</think>\n```python\nprint(1)\n```", "print(1)"),
    ("thought without end", "<think>\n```python\nprint(9)\n```", None),
    ("nothing after the thought", "<think>\n```python\nprint(9)\n```\n</think>\nI give up.", None),
    ("prose", "I do not know how to do this.", None),
    ("nothing", "", None),
    ("blanks", " \n\t\n", None),
    ("answer with a block", "<answer>\n```python\nprint(1)\n```\n</answer>", "print(1)"),
    ("answer, fence on its line", "<answer>```python\nprint(1)\n```</answer>", "print(1)"),
    ("answer without a block", "So:\n<answer>\nprint(1)\n</answer>", "print(1)"),
    ("answer on one line", "<answer>print(1)</answer>", "print(1)"),
    ("a block after the answer", "<answer>\n```python\nprint(1)\n```\n</answer>\n```python\nassert 1\n```", "print(1)"),
    ("the last answer", "<answer>print(1)</answer> or <answer>print(2)</answer>", "print(2)"),
    ("prose in the answer", "```python\nprint(1)\n```\n<answer>see above</answer>", "print(1)"),
    ("session", "```python\n>>> x = 1\n>>> if x:\n...     print(x)\n...\n1\n```", "x = 1\nif x:\n    print(x)\n"),
    ("session, pycon", "```pycon\n>>> print(1)\n1\n```", "print(1)"),
    ("shift is no session", "```python\nprint(8 >>> 1)\n```", "print(8 >>> 1)"),
    ("CRLF", "```python\r\nprint(1)\r\nprint(2)\r\n```\r\n", "print(1)\nprint(2)"),
    ("base: bare code", "import sys\nprint(1)\n", "import sys\nprint(1)"),
    ("base: prose, then code", "Sure, here it is\nimport sys\nprint(1)", "import sys\nprint(1)"),
    ("base: code, then prose", "x = 1\n\nThis assigns one to a name.\n", "x = 1"),
    ("base: the prompt opened the block", "print(1)\n```\nThis prints one.", "print(1)"),
    ("base: class", "class A:\n    def f(self):\n        return 1", "class A:\n    def f(self):\n        return 1"),
    ("closed on the last line of code", "```python\nprint(a + b)```\nDone.", "print(a + b)"),
    ("words behind the closing fence", "```python\nprint(1)\n```This prints one.\n", "print(1)"),
    ("py3", "```py3\nprint(1)\n```", "print(1)"),
    ("pypy3", "```pypy3\nprint(1)\n```", "print(1)"),
    ("python3.11", "```python3.11\nprint(1)\n```", "print(1)"),
    ("a file's name", "```main.py\nprint(1)\n```", "print(1)"),
    ("text", "```text\nprint(1)\n```", "print(1)"),
    ("code", "```code\nprint(1)\n```", "print(1)"),
    ("plaintext", "```plaintext\nprint(1)\n```", "print(1)"),
    ("fence indented, code not", "1. So:\n   ```python\ndef f(x):\n    return x\n   ```", "def f(x):\n    return x"),
    ("code less indented than its fence", "    ```python\n  if 1:\n      x = 1\n    ```", "if 1:\n    x = 1"),
    ("code indented, fence not", "```python\n    x = 1\n    y = 2\n```", "x = 1\ny = 2"),
    ("quoted", "> So:\n> ```python\n> if 1:\n>     x = 1\n> ```", "if 1:\n    x = 1"),
    ("fence behind words", "Code: ```python\nprint(1)\n```", "print(1)"),
    ("all on one line", "```print(1)```", "print(1)"),
    ("ticks in a docstring", '```python\ndef f():\n    """\n    ```\n    1\n    ```\n    """\n```\nDone',
     'def f():\n    """\n    ```\n    1\n    ```\n    """'),
    ("sample data after the program", "```\nfor i in range(2):\n    print(i)\n```\n```\na = 1\nb = 2\n```",
     "for i in range(2):\n    print(i)"),
    ("think in a comment", "```python\nprint(1)  # </think>\nprint(2)\n```", "print(1)  # </think>\nprint(2)"),
    ("end of turn", "```python\nprint(1)\n```<|im_end|>", "print(1)"),
    ("base: end of text", "print(1)<|endoftext|>print(2)", "print(1)"),
    ("base: a tag closes", "x = 1\nprint(x)\n</code>", "x = 1\nprint(x)"),
    ("base: tags", "[PYTHON]\nprint(1)\n[/PYTHON]", "print(1)"),
    ("base: verbatim", "print(1)\n\\end{verbatim}\nmore", "print(1)"),
    ("base: explanation", "print(1)\nExplanation: we print one.", "print(1)"),
    ("base: bold explanation", "print(1)\n\n**Explanation:** we print.", "print(1)"),
    ("base: short prose", "print(1)\nThis is O(1).", "print(1)"),
    ("base: starred", "*v, w = map(int, input().split())\nprint(w)", "*v, w = map(int, input().split())\nprint(w)"),
    ("base: augmented", "x += 1\nprint(x)", "x += 1\nprint(x)"),
    ("base: a call alone", "sys.stdout.write('3')", "sys.stdout.write('3')"),
    ("base: main()", "main()", "main()"),
    ("base: run on", "print(1)\n\nQuestion: add two numbers.\nAnswer:\nprint(2)", "print(1)"),
    ("base: prose that looks like code", "for example, 3 gives 4.\nwhere a = b holds\nprint(1)", "print(1)"),
    ("base: Python 2 to the prose", "print 1\nprint 2\nThis prints one and two.", None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "code"), TEXTS, ids=[text[0] for text in TEXTS])
def test_extract(name, text, code):
    found = extract(text)
    if code is None:
        assert found is None
    else:
        assert found is not None
        assert found.replace("\r\n", "\n").strip("\r\n") == code.strip("\n")


LINES = st.text(st.characters(exclude_characters="`~<>\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), max_size=20)


@given(st.lists(LINES, min_size=1, max_size=6), LINES, st.sampled_from(["```", "````", "~~~"]))
def test_a_marked_block_is_given_back(lines, prose, fence):
    body = "\n".join(["x = 1", *lines])
    found = extract(f"{prose}\n{fence}python\n{body}\n{fence}\n{prose}")
    assert found is not None
    assert found.rstrip("\n") == body.rstrip("\n")


@given(st.text(st.sampled_from("`~python>.<answer>/think \r\n=print(1)"), max_size=200))
def test_any_text_gives_a_program_or_none(text):
    found = extract(text)
    assert found is None or found.strip() or not found


def test_long_texts_take_no_long():
    for text in (
        "```\n" * 20_000,
        "<answer>" * 20_000,
        "a = 1\n" * 50_000,
        "   " * 50_000,
        "<" * 100_000,
        "x[" * 50_000,
    ):
        extract(text)
