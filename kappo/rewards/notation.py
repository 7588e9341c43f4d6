"""One spelling for the many LaTeX and plain-text spellings of an answer, and its pieces between brackets."""

from __future__ import annotations

import re

from kappo.rewards.answers import unbox

PLAIN = str.maketrans(
    {
        "−": "-", "–": "-", "—": "-", "×": r"\times ", "·": r"\cdot ", "÷": "/", "π": r"\pi ", "∞": r"\infty ",
        "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "±": r"\pm ", "°": r"^\circ ", "∪": r"\cup ", "∈": r"\in ",
        "√": r"\sqrt ", "≈": r"\approx ", "\u00a0": " ", "\u2009": " ", "\u202f": " ", "，": ",", "％": "%",
        "′": "'", "’": "'", "⁄": "/", "½": r"\frac{1}{2}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}", "²": "^2",
        "³": "^3", "∅": r"\emptyset ", "″": "''", '"': "''",
        "θ": r"\theta ", "α": r"\alpha ", "β": r"\beta ", "…": r"\dots ", "\n": " ", "\t": " ", "\r": " ",
    }
)  # fmt: skip
TEXT_COMMANDS = re.compile(
    r"\\(?:text(?:rm|bf|it|sf|tt|normal)?|mbox|hbox|mathrm|mathbf|mathit|mathsf|mathtt|operatorname\*?|rm|bf)\s*(?=\{)"
)
SAME = [
    (re.compile(pattern), put)
    for pattern, put in [
        (r"\\(?:left|right)(?![A-Za-z])\s*\.?", ""),
        (r"\\textcolor\s*\{[^{}]*\}|\\color\s*\{[^{}]*\}|\\(?:underline|boldsymbol|bm|pmb)\s*(?=\{)", ""),
        (r"\\(?:big|Big|bigg|Bigg)[lrm]?(?![A-Za-z])", ""),
        (r",\s*\\[!,;: ]\s*(?=[0-9]{3}(?![0-9]))", ","),
        (r"(?<!\\text)\{\s*([-+,:.])\s*\}", r"\1"),
        (r"(?<=[0-9])\s*\\,\s*(?=[0-9]{3}(?![0-9]))", ""),
        (r"(?<!\\)\\!", ""),
        (r"(?<!\\)\\[,;:> ]|~|\\(?:quad|qquad|thinspace|hspace\*?\{[^{}]*\}|enspace)(?![A-Za-z])", " "),
        (r"\\(?:displaystyle|textstyle|scriptstyle|limits|nolimits|small|large|Large|normalsize)(?![A-Za-z])", ""),
        (r"^\\overline\s*\{\s*([A-Z])\s*((?!\1)[A-Z])\s*\}$", r"\1\2"),
        (r"\\(?:phantom|label|tag)\{[^{}]*\}", ""),
        (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
        (r"\{([^{}]*)\\over(?![A-Za-z])([^{}]*)\}", r"\\frac{\1}{\2}"),
        (r"\\(?:begin|end)\{(?:aligned|gathered|split|align\*?|equation\*?)\}", ""),
        (r"\\[dt]binom(?![A-Za-z])", r"\\binom"),
        (r"\{([^{}]*)\\choose(?![A-Za-z])([^{}]*)\}", r"\\binom{\1}{\2}"),
        (r"\\(?:rm|bf|it|sf|tt)(?![A-Za-z])\s*", ""),
        (r"\\(?:leq|leqslant|leqq)(?![A-Za-z])", r"\\le "),
        (r"\\(?:geq|geqslant|geqq)(?![A-Za-z])", r"\\ge "),
        (r"\\(?:neq|not\s*=)(?![A-Za-z])", r"\\ne "),
        (r"(\\\\)\s*\[-?[0-9.]+\s*(?:pt|ex|em|mm|cm|in)\]", r"\1"),
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
        (r"\^\s*(?:\{\s*\\(?:circ|degree)\s*\}|\\(?:circ|degree)(?![A-Za-z]))|\\degree(?![A-Za-z])", "°"),
        (r"(?<=[0-9])\s*\^\s*(?:\{\s*o\s*\}|\{\s*\\text\{o\}\s*\}|\\text\{o\})", "°"),
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
        (r"(?i)\\text\{\s*infinity\s*\}|(?<![A-Za-z\\])(?:inf|infinity)(?![A-Za-z])", r"\\infty "),
        (r"(?i)(?:\\text\{\s*|^)(?:there (?:is|are) )?no (?:real )?solutions?\s*\.?(?:\}|$)", r"\\emptyset "),
        (r"(?i)\\text\{\s*all real(?:s| numbers?)\s*\}|^all real(?:s| numbers?)$", r"\\reals "),
        (r"\\frac\s*\{\\text\{([^{}]*)\}\}\s*\{\\text\{([^{}]*)\}\}", r"\\text{\1/\2}"),
        (r"(\\text\{[^{}]*)\^\{([^{}]*)\}", r"\1^\2"),
        (r"(?<=[0-9])\s*\\text\{\s*to\s*\}\s*(?=[0-9])|(?<=[0-9]) to (?=[0-9])", ":"),
        (r"(?<=[0-9])\s*[xX]\s*(?=10\s*\^)", r"\\times "),
        (r"\\frac\s*([0-9])", r"\\frac{\1}"),
        (r"(\\frac\s*\{[^{}]*\})\s*([0-9])", r"\1{\2}"),
        (r"\\sqrt\s*([0-9])", r"\\sqrt{\1}"),
        (r"\s*\\(?:Longrightarrow|[Rr]ightarrow|implies)\s*(?:\\text\{)?\(?([A-F])\)?\}?$", r"\\choice{\1}"),
        (r"\^\s*\{?\s*\\text\{\s*(?:th|st|nd|rd)\s*\}\s*\}?", r"\\text{th}"),
        (r"\\text\{([^{}]*[^{}\s])\s+(and|or)\s*\}", r"\\text{\1}\\\2 "),
        (r"\\text\{\s*,?\s*(and|or)\s*\}", r"\\\1 "),
        (r"(?<![A-Za-z\\])(and|or)(?![A-Za-z])", r"\\\1 "),
        (r"\s+", " "),
    ]
]
PIECE = re.compile(r"\\begin\{matrix\}|\\end\{matrix\}|\\[A-Za-z]+|\\.|.", re.DOTALL)
OPEN = {"(", "[", "{", "\\{", "\\langle", "\\lfloor", "\\lceil", "\\begin{matrix}"}
CLOSE = {")", "]", "}", "\\}", "\\rangle", "\\rfloor", "\\rceil", "\\end{matrix}"}
GROUPED = re.compile(r"(?<![0-9,.])[1-9][0-9]{0,2}(?:,[0-9]{3})*$")
GROUP = re.compile(r",[0-9]{3}(?![0-9])")
TEXT = re.compile(r"\\text\{([^{}]*)\}")
LEAD = re.compile(
    r"\\text\{\s*(?:(?:so|thus|hence|therefore),? )?(?:the |our )?(?:final |correct )?"
    r"(?:answer|value|result|solution|probability|area)(?: is)?\s*[:=]?\s*\}\s*:?(?=[^\s=])",
    re.IGNORECASE,
)
CHOICE = re.compile(r"(?:\(([A-Z])\)|(?:[Oo]ption|[Cc]hoice|[Aa]nswer) \(?([A-Z])\)?)[.:]?(?:\s+(.+))?", re.DOTALL)
COUNTED = re.compile(r"([-+]?[0-9][0-9.,/]*) ?([A-Za-z][A-Za-z ]+)")
SHORT = re.compile(r"-?[0-9]+|[A-Za-z]", re.ASCII)
SPACE = re.compile(r"(?<![A-Za-z0-9.,]) | (?![A-Za-z0-9.])|(?<=\\times) (?![A-Za-z])|(?<=\\cdot) (?![A-Za-z])")
LONE = re.compile(r"(?<!\\)\\\s*$")
WRAPPED = re.compile(r"\$\$(.*)\$\$|\$([^$]*)\$|\\\((.*)\\\)|\\\[(.*)\\\]|\*\*(.*)\*\*", re.DOTALL)


def _open_text(found: re.Match[str]) -> str:
    """The text itself where it holds no word: \\text{13}, \\mathrm{e}; a choice's letter as \\choice{C}."""
    inner = found[1].strip()
    if choice := CHOICE.fullmatch(inner):
        rest = rf"\text{{{choice[3]}}}" if choice[3] else ""
        return rf"\choice{{{choice[1] or choice[2]}}}" + TEXT.sub(_open_text, rest)
    if not inner:
        return " "
    if counted := COUNTED.fullmatch(inner):
        return rf"{counted[1]}\text{{{counted[2]}}}"
    if re.search(r"[A-Za-z]{2}", re.sub(r"\\and|\\or", "", inner)):
        return rf"\text{{{inner}}}"
    before = found.string[: found.start()]
    unit = re.fullmatch(r"[A-Za-df-hj-z][-A-Za-z0-9/ ^]*", inner) and re.search(r"[0-9}]\s*/?\s*$", before)
    return rf"\text{{{inner}}}" if unit else inner


def unwrap(answer: str) -> str:
    """The answer without the math delimiters or bold marks around all of it, boxes, and a final full stop."""
    answer = LONE.sub("", unbox(answer)).strip()
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
    text = TEXT.sub(_open_text, LEAD.sub("", text, count=1) if text.startswith(r"\text") else text)
    return unwrap(SPACE.sub("", text).strip())


def split(text: str, separators: set[str], grouping: bool = True) -> tuple[list[str], list[str]]:
    """Pieces between separators outside all brackets, and the separators. grouping: 1,234 is one number."""
    pieces, found, depth, start = [], [], 0, 0
    for match in PIECE.finditer(text):
        token = match[0]
        depth += (token in OPEN) - (token in CLOSE)
        if token not in separators or depth:
            continue
        if (
            token == ","
            and grouping
            and GROUP.match(text, match.start())
            and GROUPED.search(text[start : match.start()])
        ):
            continue
        pieces.append(text[start : match.start()].strip())
        found.append(token)
        start = match.end()
    return [*pieces, text[start:].strip()], found


def wrapped(text: str) -> tuple[str, str, str] | None:
    """(opening bracket, inside, closing bracket) where one pair of brackets holds all of the text."""
    tokens = [(match[0], match.start(), match.end()) for match in PIECE.finditer(text)]
    if len(tokens) < 2 or tokens[0][0] not in OPEN or tokens[-1][0] not in CLOSE:
        return None
    depth = 0
    for token, _, end in tokens:
        depth += (token in OPEN) - (token in CLOSE)
        if depth == 0 and end < len(text):
            return None
    return (tokens[0][0], text[tokens[0][2] : tokens[-1][1]].strip(), tokens[-1][0]) if depth == 0 else None


def words(text: str) -> str:
    """An answer in words without markup, punctuation and case."""
    text = text.replace("\\text", " ").replace("\\and", " and ").replace("\\or", " or ")
    return " ".join(re.findall(r"[^\W_]+|[^\w\s{}.,;:'\"!?\\()]", text.casefold()))
