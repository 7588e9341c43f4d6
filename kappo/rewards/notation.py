"""One spelling for the many LaTeX and plain-text spellings of an answer."""

from __future__ import annotations

import re

from kappo.rewards.answers import unbox

PLAIN = str.maketrans(
    {
        "−": "-", "–": "-", "—": "-", "×": r"\times ", "·": r"\cdot ", "÷": "/", "π": r"\pi ", "∞": r"\infty ",
        "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "±": r"\pm ", "°": r"^\circ ", "∪": r"\cup ", "∈": r"\in ",
        "√": r"\sqrt ", "≈": r"\approx ", "\u00a0": " ", "\u2009": " ", "\u202f": " ", "，": ",", "％": "%",
        "′": "'", "’": "'", "⁄": "/", "½": r"\frac{1}{2}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}", "²": "^2",
        "³": "^3", "θ": r"\theta ", "α": r"\alpha ", "β": r"\beta ", "…": r"\dots ", "\n": " ", "\t": " ", "\r": " ",
    }
)  # fmt: skip
TEXT_COMMANDS = re.compile(
    r"\\(?:text(?:rm|bf|it|sf|tt|normal)?|mbox|hbox|mathrm|mathbf|mathit|mathsf|mathtt|operatorname\*?|rm|bf)\s*(?=\{)"
)
SAME = [
    (re.compile(pattern), put)
    for pattern, put in [
        (r"\\(?:left|right)(?![A-Za-z])\s*\.?", ""),
        (r"\\(?:big|Big|bigg|Bigg)[lrm]?(?![A-Za-z])", ""),
        (r",\s*\\[!,;: ]\s*(?=[0-9]{3}(?![0-9]))", ","),
        (r"\{\s*([-+,])\s*\}", r"\1"),
        (r"(?<=[0-9])\s*\\,\s*(?=[0-9]{3}(?![0-9]))", ""),
        (r"(?<!\\)\\!", ""),
        (r"(?<!\\)\\[,;:> ]|~|\\(?:quad|qquad|thinspace|hspace\*?\{[^{}]*\}|enspace)(?![A-Za-z])", " "),
        (r"\\(?:displaystyle|textstyle|scriptstyle|limits|nolimits|small|large|Large|normalsize)(?![A-Za-z])", ""),
        (r"\\(?:phantom|label|tag)\{[^{}]*\}", ""),
        (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
        (r"\{([^{}]*)\\over(?![A-Za-z])([^{}]*)\}", r"\\frac{\1}{\2}"),
        (r"\\[dt]binom(?![A-Za-z])", r"\\binom"),
        (r"\\(?:leq|leqslant|leqq)(?![A-Za-z])", r"\\le "),
        (r"\\(?:geq|geqslant|geqq)(?![A-Za-z])", r"\\ge "),
        (r"\\(?:neq|not\s*=)(?![A-Za-z])", r"\\ne "),
        (r"\*\*", "^"),
        (r"<=|=<", r"\\le "),
        (r">=|=>", r"\\ge "),
        (r"!=", r"\\ne "),
        (r"\\lt(?![A-Za-z])", "<"),
        (r"\\gt(?![A-Za-z])", ">"),
        (r"\\(?:lbrace)(?![A-Za-z])", r"\\{"),
        (r"\\(?:rbrace)(?![A-Za-z])", r"\\}"),
        (r"\\(?:lbrack)(?![A-Za-z])", "["),
        (r"\\(?:rbrack)(?![A-Za-z])", "]"),
        (r"\\(?:lvert|rvert|vert)(?![A-Za-z])", "|"),
        (r"\\%", "%"),
        (r"\\(?:colon)(?![A-Za-z])", ":"),
        (r"\^\s*\{?\s*\\(?:circ|degree)\s*\}?|\\degree(?![A-Za-z])", "°"),
        (r"\^\s*\{\s*\\prime\s*\}|\^\s*\\prime(?![A-Za-z])", "'"),
        (r"\^\s*\{\s*\\prime\s*\\prime\s*\}", "''"),
        (r"\\var(epsilon|phi|theta|rho)(?![A-Za-z])", r"\\\1"),
        (r"\\(?:ldots|cdots|dotsc|dotsb|dots|hdots)(?![A-Za-z])", r"\\dots "),
        (r"\.\.\.+", r"\\dots "),
        (r"\\begin\{(?:[bpB]?matrix|smallmatrix|array)\}(?:\{[lcr| ]*\})?", r"\\begin{matrix}"),
        (r"\\end\{(?:[bpB]?matrix|smallmatrix|array)\}", r"\\end{matrix}"),
        (r"\\(?:Re|R|mathbb\s*\{?\s*R\s*\}?|mathbb\s+R)(?![A-Za-z])", r"\\reals "),
        (r"\\bigcup(?![A-Za-z])", r"\\cup "),
        (r"\\varnothing(?![A-Za-z])|\\\{\s*\\\}", r"\\emptyset "),
        (r"\\text\{\s*infinity\s*\}", r"\\infty "),
        (r"\\frac\s*([0-9])", r"\\frac{\1}"),
        (r"(\\frac\s*\{[^{}]*\})\s*([0-9])", r"\1{\2}"),
        (r"\\sqrt\s*([0-9])", r"\\sqrt{\1}"),
        (r"\^\s*\{?\s*\\text\{\s*(?:th|st|nd|rd)\s*\}\s*\}?", r"\\text{th}"),
        (r"\\text\{([^{}]*[^{}\s])\s+(?:and|or)\s*\}", r"\\text{\1}\\and "),
        (r"\\text\{\s*,?\s*(?:and|or)\s*\}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])", r"\\and "),
        (r"\s+", " "),
    ]
]
TEXT = re.compile(r"\\text\{([^{}]*)\}")
SHORT = re.compile(r"-?[0-9]+|[A-Za-z]", re.ASCII)
SPACE = re.compile(r"(?<![A-Za-z0-9.,]) | (?![A-Za-z0-9.])|(?<=\\times) |(?<=\\cdot) ")
WRAPPED = re.compile(r"\$\$(.*)\$\$|\$([^$]*)\$|\\\((.*)\\\)|\\\[(.*)\\\]|\*\*(.*)\*\*", re.DOTALL)


def _open_text(found: re.Match[str]) -> str:
    """The text itself where it holds no word: \\text{13}, \\mathrm{e}; a choice's letter as \\choice{C}."""
    inner = found[1].strip()
    if choice := re.fullmatch(r"\(([A-Z])\)[.:]?", inner):
        return rf"\choice{{{choice[1]}}}"
    if re.search(r"[A-Za-z]{2}", inner) or not inner:
        return rf"\text{{{inner}}}"
    unit = re.fullmatch(r"[A-Za-z][A-Za-z/]*", inner) and re.search(r"[0-9}]\s*/?\s*$", found.string[: found.start()])
    return rf"\text{{{inner}}}" if unit else inner


def unwrap(answer: str) -> str:
    """The answer without the math delimiters or bold marks around all of it, boxes, and a final full stop."""
    answer = unbox(answer).strip()
    while True:
        found = WRAPPED.fullmatch(answer)
        inner = next((part for part in found.groups() if part is not None), "") if found else answer
        inner = inner.strip().rstrip(".").strip() if not inner.rstrip().endswith("..") else inner.strip()
        if inner == answer:
            return answer
        answer = inner


def canonical(answer: str) -> str:
    """The answer in one spelling: no spacing and sizing commands, \\frac with braces, \\text for all upright text,
    `°`, `%` and `$` for their commands, true spaces only where they separate.
    """
    if SHORT.fullmatch(answer):
        return answer
    text = (
        unwrap(answer)
        .translate(PLAIN)
        .replace(r"\textdollar", r"\$")
        .replace(r"\$", "＄")
        .replace("$", "")
        .replace("＄", "$")
    )
    text = TEXT_COMMANDS.sub(r"\\text", text)
    for pattern, put in SAME:
        text = pattern.sub(put, text)
    text = TEXT.sub(_open_text, text)
    return unwrap(SPACE.sub("", text).strip())
