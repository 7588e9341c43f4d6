"""The program in a completion: the last fenced block of a chat model's, the code of a base model's."""

from __future__ import annotations

import re

FENCE = re.compile(r"^[ \t]*(```+|~~~+)[ \t]*+([\w+#.-]*+)[^\n`]*+$", re.MULTILINE)
PYTHON = {"python", "py", "python3", "python2", "pycon", "ipython", "sage"}
THOUGHT_END = "</think>"
ANSWER = re.compile(r"<answer>(.*?)(?:</answer>|\Z)", re.DOTALL)
CODE_LINE = re.compile(
    r"(import |from \S+ import |(async )?def |class |@|if |for |while |with |try:|print\(|"
    r"[A-Za-z_][\w.\[\], \t]*+=[^=])"
)


def extract(text: str) -> str | None:
    """The program's source, None where there is none.

    What a model thinks, up to the last </think>, is left out; what it marks as <answer> goes before the rest. The last
    block marked as Python counts, else the last unmarked one, those that look like code before others; a block that is
    never closed reaches to the end, a lone closing fence ends what stands before it. Without a fence the text counts
    from its first line of code up to where it goes back to prose. Of a session's record, what was typed counts.
    """
    _, mark, text = text.rpartition(THOUGHT_END)
    if not mark and "<think>" in text:
        return None
    answers = ANSWER.findall(text)
    found = (_program(answers[-1]) if answers else None) or _program(text)
    return None if found is None else _typed(found)


def _program(text: str) -> str | None:
    fences = _fences(text)
    if not fences:
        return _bare(text)
    blocks = _blocks(text, fences)
    marked = [body for language, body in blocks if language in PYTHON and body.strip()]
    others = [body for language, body in blocks if not language and body.strip()]
    likely = [body for body in others if any(map(CODE_LINE.match, body.split("\n")))]
    found = marked or likely or others
    return found[-1] if found else None


def _typed(source: str) -> str:
    """The lines after >>> and ... of an interactive session, any other source as it is."""
    if not source.lstrip().startswith(">>> "):
        return source
    lines = [line.strip("\r") for line in source.split("\n")]
    return "\n".join(line[4:] for line in lines if line.startswith((">>>", "...")))


def _fences(text: str) -> list[re.Match[str]]:
    """Fence lines; one may also stand right behind a tag, as in `<answer>```python`."""
    return list(FENCE.finditer(re.sub(r"(?m)^(<[^>\n]{1,40}>)(?=```)", lambda m: " " * len(m[0]), text)))


def _blocks(text: str, fences: list[re.Match[str]]) -> list[tuple[str, str]]:
    """(language in lower case, body) of each block, in order."""
    blocks, opened = list[tuple[str, str]](), None
    if len(fences) == 1 and not fences[0][2] and _bare(text[: fences[0].start()]):
        return [("", text[: fences[0].start()])]
    for fence in fences:
        if opened is None:
            opened = fence
        elif fence[2] or fence[1][0] != opened[1][0] or len(fence[1]) < len(opened[1]):
            if fence[2]:
                opened = fence
        else:
            blocks.append((opened[2].lower(), _dedent(opened, text[opened.end() + 1 : fence.start()])))
            opened = None
    if opened is not None:
        blocks.append((opened[2].lower(), _dedent(opened, text[opened.end() + 1 :])))
    return blocks


def _dedent(fence: re.Match[str], body: str) -> str:
    """A block in an indented list is indented as its fence is."""
    indent = re.match(r"[ \t]*", fence[0])
    return re.sub(rf"(?m)^{re.escape(indent[0])}", "", body) if indent and indent[0] else body


def _bare(text: str) -> str | None:
    lines = text.split("\n")
    first = next((i for i, line in enumerate(lines) if CODE_LINE.match(line)), None)
    if first is None:
        return None
    last = len(lines)
    for i in range(first + 1, len(lines)):
        line = lines[i]
        if re.match(r"[A-Z][a-z']*( [\w',-]+){3,}[.:!?]?$", line) and not CODE_LINE.match(line):
            last = i
            break
    return "\n".join(lines[first:last])
