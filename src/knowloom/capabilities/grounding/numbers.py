"""Numbers, amounts and dates of a text in one form: "1,200 dollars", "$1.2k" and "1200.00 USD" are the same."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from decimal import Context, Decimal, InvalidOperation
from typing import NamedTuple

_MONTH_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec"
_NUMBER_WORDS = "zero one two three four five six seven eight nine ten eleven twelve"
_PLAIN_UNITS = "day week month year hour minute second night km kg mile meter metre gram ton token item person star time ms gb mb cm mm"
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES.split(), start=1)}
_MONTH = r"(?P<{0}>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
_DATES = (
    re.compile(r"\b(?P<y>\d{4})-(?P<m>\d{2})-(?P<d>\d{2})\b"),
    re.compile(
        rf"\b(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH.format('n')},?\s+(?P<y>\d{{4}})\b",
        re.I,
    ),
    re.compile(
        rf"\b{_MONTH.format('n')}\s+(?P<d>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<y>\d{{4}})\b", re.I
    ),
)
_WORDS = {word: str(number) for number, word in enumerate(_NUMBER_WORDS.split())}
_SCALES = {
    "k": 3,
    "thousand": 3,
    "million": 6,
    "mn": 6,
    "billion": 9,
    "bn": 9,
    "trillion": 12,
    "hundred": 2,
}
_CURRENCIES = {
    "$": "usd",
    "€": "eur",
    "£": "gbp",
    "¥": "jpy",
    "dollar": "usd",
    "euro": "eur",
    "pound": "gbp",
}
_CURRENCIES |= {code: code for code in ("usd", "eur", "gbp", "jpy", "cad", "chf")}
_UNITS = {unit: unit for unit in _PLAIN_UNITS.split()}
_UNITS |= {
    "%": "%",
    "percent": "%",
    "per cent": "%",
    "pct": "%",
    "business day": "business day",
    "working day": "business day",
}
_UNITS |= {
    "hr": "hour",
    "hrs": "hour",
    "min": "minute",
    "sec": "second",
    "kilometer": "km",
    "kilometre": "km",
    "kilogram": "kg",
    "people": "person",
}
_NUMBER = re.compile(
    r"(?P<sign>(?<![\w.,)])[-−])?(?P<currency>[$€£¥])?\s?"
    r"(?:(?P<digits>(?<![\w.,])(?<![A-Za-z]-)\d{1,3}(?:[,’' \u00a0\u202f]\d{3})+(?:\.\d+)?(?![\d])|(?<![\w.])(?<![A-Za-z]-)\d+(?:[.,]\d+)*)"
    rf"|\b(?P<word>{'|'.join(_WORDS)})\b)"
    r"(?:st|nd|rd|th)?(?:[\s-]?(?P<scale>k|thousand|million|mn|billion|bn|trillion|hundred)\b)?"
    r"(?:[\s-]*(?P<unit>%|per cent|business days?|working days?|[A-Za-z]+))?",
    re.I,
)

_EXACT = Context(prec=10_000)  # digits: more than any sentence has
_BETWEEN_DIGITS = re.compile(r"[’' \u00a0\u202f]")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_POINTED_THOUSANDS = re.compile(r"\d{1,3}(?:\.\d{3}){2,}(?:,\d+)?")
_DECIMAL_COMMA = re.compile(r"\d+,\d+")


class Number(NamedTuple):
    """A value, what it counts (a unit, a currency, "date", or ""), and how it was written."""

    value: str
    unit: str
    said: str
    start: int
    end: int


class SpanIndex:
    """Places in a text that do not overlap, to be asked for again and again."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._spans = sorted(spans)

    def touch(self, start: int, end: int) -> bool:
        """Whether one of them has a character of this place."""
        before = bisect_left(self._spans, (end, 0))
        return before > 0 and self._spans[before - 1][1] > start


class NumberIndex:
    """Numbers to be asked for by value. A number without a unit is the same as one with any."""

    def __init__(self, numbers: Iterable[Number]) -> None:
        self._units: dict[str, set[str]] = {}
        for one in numbers:
            self._units.setdefault(one.value, set()).add(one.unit)

    def has(self, one: Number) -> bool:
        units = self._units.get(one.value, ())
        return bool(units) and (not one.unit or one.unit in units or "" in units)


def extract_numbers(text: str) -> list[Number]:
    """All numbers and dates, in their order."""
    dates = _apart(_dates(text))
    taken = SpanIndex([(one.start, one.end) for one in dates])
    return sorted(
        [*dates, *(one for one in _plain(text) if not taken.touch(one.start, one.end))],
        key=lambda one: one.start,
    )


def _apart(dates: Iterable[Number]) -> list[Number]:
    """The first of those that overlap."""
    kept: list[Number] = []
    for one in sorted(dates, key=lambda one: (one.start, -one.end)):
        if not kept or one.start >= kept[-1].end:
            kept.append(one)
    return kept


def _dates(text: str) -> Iterator[Number]:
    for pattern in _DATES:
        for found in pattern.finditer(text):
            parts = found.groupdict()
            month = int(parts["m"]) if parts.get("m") else _MONTHS[parts["n"][:3].lower()]
            yield Number(
                f"{parts['y']}-{month:02}-{int(parts['d']):02}",
                "date",
                found.group(),
                found.start(),
                found.end(),
            )


def _plain(text: str) -> Iterator[Number]:
    for found in _NUMBER.finditer(text):
        value = _value(found)
        if value is None:
            continue
        unit, end = _unit(found)
        said = text[found.start() : end].strip()
        yield Number(value, unit, said, found.start(), end)


def _value(found: re.Match[str]) -> str | None:
    digits = _WORDS[found["word"].lower()] if found["word"] else _decimal(found["digits"])
    try:
        number = Decimal(digits).scaleb(
            _SCALES[found["scale"].lower()] if found["scale"] else 0, _EXACT
        )
    except InvalidOperation:
        return digits  # a version such as 1.2.3
    plain = f"{number.copy_negate() if found['sign'] else number:f}"
    return plain.rstrip("0").rstrip(".") or "0" if "." in plain else plain


def _decimal(digits: str) -> str:
    """With a point for decimals: groups of three digits are thousands, a comma before others is a decimal one."""
    if digits.isdecimal():
        return digits
    digits = _BETWEEN_DIGITS.sub("", digits)
    if _THOUSANDS.fullmatch(digits):
        return digits.replace(",", "")
    if _POINTED_THOUSANDS.fullmatch(digits):
        return digits.replace(".", "").replace(",", ".")
    return digits.replace(",", ".") if _DECIMAL_COMMA.fullmatch(digits) else digits


def _unit(found: re.Match[str]) -> tuple[str, int]:
    """What is counted, and where the number ends: a word that is no unit does not belong to it."""
    bare = (
        found.end("scale")
        if found["scale"]
        else found.start("unit")
        if found["unit"]
        else found.end()
    )
    unit = (found["unit"] or "").lower()
    singular = unit[:-1] if unit.endswith("s") and unit not in _UNITS else unit
    known = _UNITS.get(singular) or _CURRENCIES.get(singular)
    if found["currency"]:
        return _CURRENCIES[found["currency"]], found.end() if singular in _CURRENCIES else bare
    return (known, found.end()) if known else ("", bare)
