"""The program in a completion: the last fenced block of a chat model's, the code of a base model's."""

from __future__ import annotations

import re

FENCE = re.compile(r"^[ \t]*(```+|~~~+)[ \t]*([\w+#.-]*)[^\n`]*$", re.MULTILINE)
PYTHON = {"python", "py", "python3", "python2", "pycon", "ipython", "sage"}
THOUGHT_END = "</think>"
CODE_LINE = re.compile(
    r"(import |from \S+ import |(async )?def |class |@|if |for |while |with |try:|print\(|"
    r"[A-Za-z_][\w.\[\], ]*\s*=[^=])"
)


def extract(text: str) -> str | None:
    """The program's source, None where there is none.

    What a model thinks, up to the last </think>, is left out. The last block marked as Python counts, else the last
    unmarked one; a block that is never closed reaches to the end, a lone closing fence ends what stands before it.
    Without a fence the text counts from its first line of code up to where it goes back to prose.
    """
    _, mark, tail = text.rpartition(THOUGHT_END)
    if not mark and "<think>" in text:
        return None
    text = tail
    fences = _fences(text)
    if not fences:
        return _bare(text)
    blocks = _blocks(text, fences)
    for wanted in (PYTHON, {""}):
        found = [body for language, body in blocks if language in wanted and body.strip()]
        if found:
            return found[-1]
    return None


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
