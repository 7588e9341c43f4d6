from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kappo.rewards.notation import canonical
from kappo.rewards.numerals import Quantity, agree, equal, read
from kappo.rewards.units import split_unit, unit_name


def number(latex):
    return read(canonical(latex))


@pytest.mark.parametrize(
    ("latex", "value"),
    [
        ("025", 25),
        ("+2", 2),
        ("−7", -7),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("1,234,567", 1234567),
        (r"10{,}000", 10000),
        (r"10,\!080", 10080),
        (r"10\,000", 10000),
        ("1 000 000", 1000000),
        ("1,234.5", Fraction(2469, 2)),
        (r"\frac12", Fraction(1, 2)),
        (r"\frac 34", Fraction(3, 4)),
        (r"\frac9{19}", Fraction(9, 19)),
        (r"\dfrac{-2}{3}", Fraction(-2, 3)),
        (r"\frac{2}{-3}", Fraction(-2, 3)),
        (r"-\tfrac{2}{3}", Fraction(-2, 3)),
        ("-(3/2)", Fraction(-3, 2)),
        (r"{1 \over 2}", Fraction(1, 2)),
        ("1 1/4", Fraction(5, 4)),
        (r"-13\frac{1}{2}", Fraction(-27, 2)),
        (r"0.\overline{3}", Fraction(1, 3)),
        (r"0.1\overline{6}", Fraction(1, 6)),
        (r"0.333\ldots", Fraction(1, 3)),
        ("0.1666...", Fraction(1, 6)),
        (r"15\text{ hundred}", 1500),
        (r"\text{6 people}", 6),
        ("6 people", 6),
        ("7e37", 7 * 10**37),
        (r"7 \times 10^{37}", 7 * 10**37),
        (r"2.5 \cdot 10^{-3}", Fraction(1, 400)),
        ("10^4", 10**4),
        ("1e4000", 10**4000),
        ("9" * 1900, int("9" * 1900)),
        (r"\$32,348", 32348),
        ("$0.50$", Fraction(1, 2)),
        (r"1.5\text{ million}", 1500000),
    ],
)
def test_read_exactly(latex, value):
    found = number(latex)
    assert found is not None
    assert found.value == value
    assert not found.percent


@pytest.mark.parametrize(
    "latex",
    ["", "x", "12,34", "1,23,456", "0,123", "1.2.3", "7x", "1/0", r"\frac{1}{0}", "1e999999999", "4 10/3",
     r"2\frac{5}{3}",
     "7 8", "7?", r"7\text{ or }8", r"7 \text{ is wrong}", r"7\text{ probably}", r"0.33\ldots", "--", "1,2", "(1,200)"],
)  # fmt: skip
def test_not_one_number(latex):
    assert number(latex) is None


@given(st.fractions(max_denominator=10**6))
def test_every_fraction_is_read_back(value):
    top, bottom = value.numerator, value.denominator
    for text in (f"{top}/{bottom}", rf"\frac{{{top}}}{{{bottom}}}", rf"\left(\dfrac{{{top}}}{{{bottom}}}\right)"):
        assert number(text) == Quantity(value)


@given(st.integers(-(10**30), 10**30))
def test_grouping_does_not_change_a_number(value):
    assert number(f"{value:,}") == number(f"{value}") == number(f"{value:,}".replace(",", "{,}"))


@given(st.integers(10**9, 10**15), st.integers(3, 10**6))
def test_long_decimals_stand_for_what_they_are_cut_from(top, bottom):
    exact = Fraction(top * bottom + 1, bottom)
    digits = 12
    cut = int(exact * 10**digits)
    shown = read(f"{cut // 10**digits}.{cut % 10**digits:0{digits}d}")
    assert equal(Quantity(exact), shown)
    noise = shown.step * 10 ** max(shown.digits - 15, 0)
    off = Quantity(shown.value + 3 * noise, digits=shown.digits, step=shown.step)
    assert not equal(Quantity(exact), off)


def test_short_decimals_are_not_the_exact_value():
    assert not agree(number("0.333333333"), Fraction(1, 3), terminates=False)
    assert agree(number("0.3333333333"), Fraction(1, 3), terminates=False)
    assert not agree(number("1.0000000000000001"), Fraction(1), terminates=True)


@pytest.mark.parametrize(
    ("text", "name"),
    [("cm", "cm"), (r"\text{centimeters}", "cm"), (r"\text{cm}^2", "cm^2"), (r"\text{square inches}", "in^2"),
     ("miles", "mi"), (r"\text{m/s}", "m / s"), (r"\text{meters per second}", "m / s"), ("apples", "apple"),
     (r"\text{kcal m}^{-2}\text{yr}^{-1}", "kcal / m^2 / year"), (r"\text{m s^-1}", "m / s")],
)  # fmt: skip
def test_unit_names(text, name):
    assert unit_name(text) == name


def test_letters_are_no_unit():
    assert split_unit("6x") == ("6x", "")
    assert split_unit("6xy") == ("6xy", "")
    assert split_unit(r"6\text{x or y}") == (r"6\text{x or y}", "")


def test_many_letters_take_moments():
    assert number("5" + "a" * 1900 + "!") is None
    assert number("5" + r"\text{a}" * 300 + "!") is None
