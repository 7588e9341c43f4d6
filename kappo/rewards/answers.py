"""Where a completion states its final answer: the last box, or an explicit statement."""

from __future__ import annotations

import re

LONGEST = 2_000
"""Characters of the longest answer that is looked at; a longer one is wrong, and one over FARTHEST is not closed."""
FARTHEST = 100_000
MOST_BOXES = 64

BOX = re.compile(r"\\(?:boxed|fbox|framebox)(?![A-Za-z])")
TOKEN_AFTER_BOX = re.compile(r"\s*([^\s{}$\\]+|\\[A-Za-z]+)")
BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
GAP = r"(?:[\s$]|\\[()\[\],;:! ]|\\q?quad(?![A-Za-z]))*"
BETWEEN = re.compile(
    rf"{GAP}(?:[,;]{GAP})?(?:(?:\\text\{{)?\s*(and|or)\s*\}}?)?{GAP}(?:[A-Za-z](?:_[A-Za-z0-9]|_\{{[A-Za-z0-9]+\}})?\s*={GAP})?"
)
STATED = re.compile(
    r"(?:\banswer\W{0,8}?(?:\s+is)?\s*[:=]|\banswer\s+is\b(?:\s+(?:therefore|thus|then|simply|just|hence)\b)?"
    r"|\bfinal\s+answer\W*?\n|^[#*]{1,6} ?answer\W*?\n|^####)\s*+:?\s*+(?=\S)",
    re.IGNORECASE | re.MULTILINE,
)
TAG = re.compile(r"<(/?)answer>", re.IGNORECASE)
RULE = re.compile(r"\W{0,8}?[-=_*]{3,}\s*\n\s*")
DELIMITED = re.compile(
    r"\$\$(.+?)\$\$|\$([^$\n]+)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]"
    r"|\\begin\{((?:equation|align|gather|displaymath|math)\*?)\}(.+?)\\end\{\5\}",
    re.DOTALL,
)
JOINT = re.compile(r"[ \n*]*(?:[,;][ \n*]*)?(?:(?:and|or)\b)?[ \n*]*", re.IGNORECASE)
SENTENCE_END = re.compile(r"\.\s|\.$|;|\s(?:because|since|as|which|so|hence|i hope)\s", re.IGNORECASE)


def closing(text: str, start: int) -> int:
    """Place of the brace that closes the one opened just before `start`; -1 where none does within FARTHEST."""
    depth = 1
    for found in BRACE.finditer(text, start, start + FARTHEST):
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        if depth == 0:
            return found.start()
    return -1


def _box(text: str, after: int) -> tuple[str, int] | None:
    """Content and end of the box whose command ends at `after`; None when it is not complete."""
    begin = after
    while begin < len(text) and text[begin] in " \n\t":
        begin += 1
    if text[begin : begin + 1] == "{":
        end = closing(text, begin + 1)
        return None if end < 0 else (text[begin + 1 : end], end + 1)
    found = TOKEN_AFTER_BOX.match(text, after)
    return (found[1].rstrip(".,;"), found.end()) if found and begin > after else None


def boxes(text: str) -> list[tuple[str, int, int]]:
    """(content, start, end) of the last outermost boxes; empty when the last box is not complete."""
    found = [(match.start(), _box(text, match.end())) for match in list(BOX.finditer(text))[-MOST_BOXES:]]
    if not found or found[-1][1] is None:
        return []
    outer: list[tuple[str, int, int]] = []
    for start, box in found:
        if box and not (outer and start < outer[-1][2]):
            outer.append((box[0], start, box[1]))
    return outer


def unbox(answer: str) -> str:
    """The answer without box commands and their braces."""
    while found := BOX.search(answer):
        box = _box(answer, found.end())
        if box is None:
            return answer[: found.start()] + answer[found.end() :]
        answer = answer[: found.start()] + box[0] + answer[box[1] :]
    return answer


def _joined(text: str, found: list[tuple[str, int, int]], many: bool) -> list[str]:
    """Contents of the last boxes of one line that only commas, `and`, `or` stand between; where one is sought, `or`."""
    contents = [found[-1][0]]
    for (content, _, end), (_, start, _) in zip(found[-2::-1], found[:0:-1], strict=True):
        joint = BETWEEN.fullmatch(text, end, start)
        if "\n" in text[end:start] or not joint or not text[end:start].strip(" $"):
            break
        if not many and joint[1] != "or":
            break
        contents.insert(0, content)
    return contents


def _said(text: str) -> str | None:
    """The answer that a text begins with: maths, also on lines of its own, or the rest of a sentence in one line."""
    text = text.lstrip("*_ :\n")
    if rule := RULE.match(text):
        text = text[rule.end() :]
    if math := DELIMITED.match(text):
        parts = [_inside(math)]
        while (joint := JOINT.match(text, math.end())) and joint[0].strip(" \n*"):
            following = DELIMITED.match(text, joint.end())
            if not following:
                break
            parts.append(_inside(following))
            math = following
        return ", ".join(parts)
    said = text.partition("\n")[0].strip()
    if end := SENTENCE_END.search(said):
        said = said[: end.start()]
    return said.rstrip("*_ .").strip() or None


def _inside(math: re.Match[str]) -> str:
    return str(math[6] or next(part for part in math.groups() if part is not None)).strip()


def _statement(text: str) -> tuple[int, str | None]:
    """Place and answer of the last statement near the end of a text, in <answer> tags or a sentence; -1 without any.

    A last tag that is not closed holds no answer.
    """
    text = text[-FARTHEST:]
    tags = list(TAG.finditer(text))
    opened = next((place for place in range(len(tags) - 1, -1, -1) if not tags[place][1]), None)
    if opened is None:
        begin = end = -1
    else:
        begin = tags[opened].end()
        end = tags[opened + 1].start() if opened + 1 < len(tags) else len(text)
    last = None
    for sentence in STATED.finditer(text):
        last = sentence
    if last and (opened is None or last.start() >= begin):
        inner = text[last.end() : end] if last.end() <= end else text[last.end() :]
        return last.start(), _said(inner)
    if opened is None:
        return -1, None
    return begin, text[begin:end].strip() if opened + 1 < len(tags) else None


def final_answer(text: str, many: bool = False) -> str | None:
    """What a completion gives as its answer; None where it gives none.

    The last complete \\boxed{...}, \\fbox{...} or `\\boxed 5` counts, that after </think> before one inside; when the
    last box is not closed there is no answer. many: the gold is a list, so boxes of the same line joined by commas,
    `and`, `or` are one list. Without a box only a statement counts, the last: `Final Answer: 73`, `the answer is 73`,
    `#### 73`, `<answer>73</answer>`; maths may stand on the lines below it.
    """
    tail = text[text.rfind("</think>") + len("</think>") :] if "</think>" in text else text
    part = tail if BOX.search(tail) or _statement(tail)[0] >= 0 else text
    if not BOX.search(part):
        return _statement(part)[1]
    found = boxes(part)
    if not found:
        return None
    return unbox(", ".join(_joined(part, found, many))).strip()
