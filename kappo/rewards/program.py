"""The program in a completion: the last fenced block of a chat model's, the code of a base model's."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

THOUGHT_END = re.compile(r"^[^\n#'\"]*</think>", re.MULTILINE)
TURN_END = re.compile(r"<\|(?:endoftext|im_end|eot_id|eom_id|end|end_of_text|end_of_turn)\|>")
ANSWER = re.compile(r"<answer>(.*?)(?:</answer>|\Z)", re.DOTALL)
TICKS = re.compile(r"```+|~~~+")
LEAD = re.compile(r"[ \t>]*(?:[-*+]|[0-9]+[.)])?[ \t>]*|[ \t]*<[^<>]{1,40}>")
"""What may stand before a fence: an indent, a quote's or a list item's mark, a tag."""
PYTHON = re.compile(r"(?:i?py|pypy|python|ipython|sage)[\d.]*|pycon|\S+\.py", re.IGNORECASE)
LANGUAGES = """
bash sh zsh shell console terminal powershell cmd c h cpp c++ cc cxx csharp c# cs java kotlin scala javascript js
typescript ts jsx tsx go golang rust rs ruby rb php perl lua r julia swift haskell hs ocaml sql json yaml yml toml xml
html css latex tex markdown md diff makefile dockerfile matlab pascal fortran asm output stdout input stdin stderr log
csv mermaid pseudocode
"""
OTHERS = set(LANGUAGES.split())
"""Marks of blocks that hold no Python."""
STATEMENT = re.compile(
    r"(?:import |from \S+ import |(?:async )?def |class |@|if |for |while |with |try:|[A-Za-z_][\w.]*\()"
)
ASSIGNMENT = re.compile(r"[*(]?[A-Za-z_][\w.\[\], \t*]*+(?:[-+/|&^%]|//|<<|>>)?=[^=]")
MARKS = re.compile(
    r"^[ \t]*(?:<code>|<python>|\[PYTHON\])|(?:</code>|</python>|\[/PYTHON\]|\[END\])[ \t]*$", re.MULTILINE
)
PROSE = re.compile(r"[A-Z][a-z']*( [\w',-]+){3,}[.:!?]?$")
LONGEST_PARSED = 50_000
MOST_CUTS = 12


def extract(text: str) -> str | None:
    """The program's source, None where there is none.

    What a model thinks, up to the last </think>, is left out; what it marks as <answer> goes before the rest. The last
    block marked as Python counts, else the last unmarked one, those that look most like code before others; a block
    that is never closed reaches to the end, a lone closing fence ends what stands before it. Without a fence the text
    counts from its first line of code up to where it is no code. Of a session's record, what was typed counts.
    """
    thoughts = [found.end() for found in THOUGHT_END.finditer(text)]
    if not thoughts and "<think>" in text:
        return None
    text = text[thoughts[-1] :] if thoughts else text
    ended = TURN_END.search(text)
    text = text[: ended.start()] if ended else text
    answers = ANSWER.findall(text)
    found = (_program(answers[-1]) if answers else None) or _program(text)
    return None if found is None else _typed(found)


def _program(text: str) -> str | None:
    blocks = _blocks(text)
    if not blocks:
        return _unfenced(text)
    marked = [block.body for block in blocks if PYTHON.fullmatch(block.language) and block.body.strip()]
    others = [block.body for block in blocks if _neutral(block.language) and block.body.strip()]
    best = max(map(_likeness, others), default=0)
    found = marked or [body for body in others if _likeness(body) == best]
    return found[-1] if found else None


def _neutral(language: str) -> bool:
    """Does a block's mark leave open what it holds?"""
    return not PYTHON.fullmatch(language) and language.lower() not in OTHERS


def _likeness(body: str) -> int:
    """2 for a body with a statement, 1 with an assignment only, else 0."""
    lines = body.split("\n")
    return 2 if any(map(STATEMENT.match, lines)) else int(any(map(ASSIGNMENT.match, lines)))


def _typed(source: str) -> str:
    """The lines after >>> and ... of an interactive session, any other source as it is."""
    if not source.lstrip().startswith(">>> "):
        return source
    lines = [line.strip("\r") for line in source.split("\n")]
    return "\n".join(line[4:] for line in lines if line.startswith((">>>", "...")))


@dataclass
class _Block:
    """A fenced block: what stood before its fence, the fence, the word behind it, its lines."""

    lead: str
    ticks: str
    language: str
    lines: list[str] = field(default_factory=list)
    quotes: int = 0

    @property
    def body(self) -> str:
        lines = self.lines
        if ">" in self.lead and "<" not in self.lead:
            lines = [re.sub(r"^[ \t]*>[ \t]?", "", line) for line in lines]
        return "\n".join(_dedented(lines, len(self.lead) - len(self.lead.lstrip())))

    def add(self, line: str) -> None:
        self.lines.append(line)
        self.quotes += line.count('"""') + line.count("'''")


def _dedented(lines: list[str], indent: int) -> list[str]:
    """Without the indent that all lines share, or else with at most the fence's taken from each."""
    indents = [len(line) - len(line.lstrip(" \t")) for line in lines if line.strip()]
    common = min(indents, default=0)
    if common or not indent or not indents[0]:
        return [line[common:] for line in lines]
    most = min(indent, indents[0])
    return [line[min(most, len(line) - len(line.lstrip(" \t"))) :] for line in lines]


def _blocks(text: str) -> list[_Block]:
    """Fenced blocks in order, the last one perhaps never closed; [] for a text without a fence."""
    lines = text.split("\n")
    fences = [i for i, line in enumerate(lines) if "```" in line or "~~~" in line]
    if len(fences) == 1 and lines[fences[0]].strip() == "```":
        before = "\n".join(lines[: fences[0]])
        if _unfenced(before) is not None:
            return [_Block("", "```", "", lines[: fences[0]])]
    last = fences[-1] if fences else -1
    blocks: list[_Block] = []
    opened: _Block | None = None
    for i, line in enumerate(lines):
        if opened is None:
            found = _opening(line)
            if found and found.lines:
                blocks.append(found)
            else:
                opened = found
            continue
        word = _closing(line, opened)
        if word is None or (opened.quotes % 2 and i < last and not word):
            opened.add(line)
        elif PYTHON.fullmatch(word) or word.lower() in OTHERS:
            opened = _opening(line)
        else:
            rest = line.rstrip()
            if not rest.lstrip(" \t>").startswith(opened.ticks[:3]):
                opened.add(rest[: -len(opened.ticks)])
            blocks.append(opened)
            opened = None
    return [*blocks, opened] if opened else blocks


def _opening(line: str) -> _Block | None:
    """The block that a line opens; with its one line where it closes it, too."""
    found = TICKS.search(line)
    if not found:
        return None
    lead, after = line[: found.start()], line[found.end() :].strip()
    language = after.split()[0] if after else ""
    if "`" in after:
        whole = after.endswith(found[0]) and "`" not in after[: -len(found[0])] and not lead.strip()
        return _Block("", found[0], "", [after[: -len(found[0])]]) if whole else None
    if LEAD.fullmatch(lead) or (found[0][0] == "`" and PYTHON.fullmatch(language)):
        return _Block(lead if LEAD.fullmatch(lead) else "", found[0], language)
    return None


def _closing(line: str, opened: _Block) -> str | None:
    """None where a line does not close the block, else the word behind its fence, which may open another."""
    text = line.strip()
    if ">" in opened.lead:
        text = text.lstrip("> \t")
    found = TICKS.match(text)
    if found and found[0][0] == opened.ticks[0] and "`" not in text[found.end() :]:
        words = text[found.end() :].split()
        if len(found[0]) >= len(opened.ticks) or (words and PYTHON.fullmatch(words[0])):
            return words[0] if words else ""
        return None
    ends = text.endswith(opened.ticks) and text.count(opened.ticks) == 1 and opened.ticks[0] == "`"
    return "" if ends and not found else None


def _unfenced(text: str) -> str | None:
    """From the first line of code to the last that leaves it a program; where none does, to the next line of prose."""
    lines = MARKS.sub("", text).split("\n")
    first = next((i for i, line in enumerate(lines) if _starts(line)), None)
    if first is None:
        return None
    return _parsing(lines[first:]) or _until_prose(lines[first:])


def _starts(line: str) -> bool:
    """Is a line one of code? `for example, 3 gives 4.` is none."""
    if not (STATEMENT.match(line) or ASSIGNMENT.match(line)):
        return False
    line = line.strip()
    continued = any(line.count(a) != line.count(b) for a, b in ("()", "[]", "{}")) or line.endswith("\\")
    if continued or '"""' in line or "'''" in line or line == "try:" or line[0] == "@" or len(line) > 1000:
        return True
    return _parses(line + " pass" if line.endswith(":") else line) is None


def _parses(source: str) -> int | None:
    """None for a program, else the number of the line at fault."""
    try:
        ast.parse(source)
    except SyntaxError as error:
        return error.lineno or 1
    except (ValueError, RecursionError, MemoryError):
        return 1
    return None


def _parsing(lines: list[str]) -> str | None:
    """The lines up to the last that leaves them a program; None where that leaves none."""
    for _ in range(MOST_CUTS):
        source = "\n".join(lines)
        if not source.strip() or len(source) > LONGEST_PARSED:
            return None
        fault = _parses(source)
        if fault is None:
            return source
        lines = lines[: min(fault, len(lines)) - 1]
    return None


def _until_prose(lines: list[str]) -> str:
    end = next((i for i, line in enumerate(lines) if i and PROSE.match(line) and not _starts(line)), len(lines))
    return "\n".join(lines[:end])
