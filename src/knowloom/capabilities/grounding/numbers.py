"""Extract numbers, amounts and dates in a canonical form.

"1,200 dollars", "$1.2k" and "1200.00 USD" are the same number.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from decimal import Context, Decimal, InvalidOperation
from typing import NamedTuple

_MONTH_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec"
_NUMBER_WORDS = "zero one two three four five six seven eight nine ten eleven twelve"
_PLAIN_UNITS = (
    "day week month year hour minute second night km kg mile meter metre gram ton "
    "token item person star time ms gb mb cm mm"
)
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES.split(), start=1)}
_MONTH = (
    r"(?P<n>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?"
    r"|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY, _YEAR = r"(?P<d>\d{1,2})(?:st|nd|rd|th)?", r"(?P<y>\d{4})"
_DATES = (
    re.compile(r"\b(?P<y>\d{4})-(?P<m>\d{2})-(?P<d>\d{2})\b"),
    re.compile(rf"\b{_DAY}\s+(?:of\s+)?{_MONTH},?\s+{_YEAR}\b", re.I),
    re.compile(rf"\b{_MONTH}\s+{_DAY},?\s+{_YEAR}\b", re.I),
)
_WORDS = {word: str(number) for number, word in enumerate(_NUMBER_WORDS.split())}
_POWERS = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_SCALES = _POWERS | {"k": 3, "mn": 6, "bn": 9}
_CURRENCIES = {"$": "usd", "€": "eur", "£": "gbp", "¥": "jpy"}
_CURRENCIES |= {"dollar": "usd", "euro": "eur", "pound": "gbp"}
_CURRENCIES |= {code: code for code in ("usd", "eur", "gbp", "jpy", "cad", "chf")}
_UNITS = {unit: unit for unit in _PLAIN_UNITS.split()}
_UNITS |= dict.fromkeys(("%", "percent", "per cent", "pct"), "%")
_UNITS |= dict.fromkeys(("business day", "working day"), "business day")
_UNITS |= {"hr": "hour", "hrs": "hour", "min": "minute", "sec": "second"}
_UNITS |= {"kilometer": "km", "kilometre": "km", "kilogram": "kg", "people": "person"}
_NUMBER = re.compile(
    r"(?P<sign>(?<![\w.,)])[-−])?(?P<currency>[$€£¥])?\s?"
    r"(?:(?P<digits>"
    r"(?<![\w.,])(?<![A-Za-z]-)\d{1,3}(?:[,’' \u00a0\u202f]\d{3})+(?:\.\d+)?(?![\d])"
    r"|(?<![\w.])(?<![A-Za-z]-)\d+(?:[.,]\d+)*)"
    rf"|\b(?P<word>{'|'.join(_WORDS)})\b)"
    r"(?:st|nd|rd|th)?(?:[\s-]?(?P<scale>k|thousand|million|mn|billion|bn|trillion|hundred)\b)?"
    r"(?:[\s-]*(?P<unit>%|per cent|business days?|working days?|[A-Za-z]+))?",
    re.I,
)

_EXACT = Context(prec=10_000)  # more digits than a sentence can have
_BETWEEN_DIGITS = re.compile(r"[’' \u00a0\u202f]")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_POINTED_THOUSANDS = re.compile(r"\d{1,3}(?:\.\d{3}){2,}(?:,\d+)?")
_DECIMAL_COMMA = re.compile(r"\d+,\d+")


class Number(NamedTuple):
    """A value, its unit (a currency, "date", or ""), and how it was written."""

    value: str
    unit: str
    text: str
    start: int
    end: int


class SpanIndex:
    """Non-overlapping spans of a text, for fast overlap tests."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._spans = sorted(spans)

    def overlaps(self, start: int, end: int) -> bool:
        before = bisect_left(self._spans, (end, 0))
        return before > 0 and self._spans[before - 1][1] > start


class NumberIndex:
    """Numbers looked up by value; a number without a unit matches any unit."""

    def __init__(self, numbers: Iterable[Number]) -> None:
        self._units: dict[str, set[str]] = {}
        for number in numbers:
            self._units.setdefault(number.value, set()).add(number.unit)

    def has(self, number: Number) -> bool:
        units = self._units.get(number.value, ())
        return bool(units) and (not number.unit or number.unit in units or "" in units)


def extract_numbers(text: str) -> list[Number]:
    """Return the numbers and dates of a text in order."""
    dates = _drop_overlaps(_find_dates(text))
    spans = SpanIndex([(date.start, date.end) for date in dates])
    others = (
        number for number in _find_numbers(text) if not spans.overlaps(number.start, number.end)
    )
    return sorted([*dates, *others], key=lambda number: number.start)


def _drop_overlaps(dates: Iterable[Number]) -> list[Number]:
    """Return the dates in order, only the first of those that overlap."""
    result: list[Number] = []
    for date in sorted(dates, key=lambda date: (date.start, -date.end)):
        if not result or date.start >= result[-1].end:
            result.append(date)
    return result


def _find_dates(text: str) -> Iterator[Number]:
    for pattern in _DATES:
        for match in pattern.finditer(text):
            parts = match.groupdict()
            month = int(parts["m"]) if parts.get("m") else _MONTHS[parts["n"][:3].lower()]
            value = f"{parts['y']}-{month:02}-{int(parts['d']):02}"
            yield Number(value, "date", match.group(), *match.span())


def _find_numbers(text: str) -> Iterator[Number]:
    for match in _NUMBER.finditer(text):
        unit, end = _parse_unit(match)
        start = match.start()
        yield Number(_parse_value(match), unit, text[start:end].strip(), start, end)


def _parse_value(match: re.Match[str]) -> str:
    digits = _WORDS[match["word"].lower()] if match["word"] else _normalise_digits(match["digits"])
    exponent = _SCALES[match["scale"].lower()] if match["scale"] else 0
    try:
        number = Decimal(digits).scaleb(exponent, _EXACT)
    except InvalidOperation:
        return digits  # a version such as 1.2.3
    plain = f"{number.copy_negate() if match['sign'] else number:f}"
    return plain.rstrip("0").rstrip(".") or "0" if "." in plain else plain


def _normalise_digits(digits: str) -> str:
    """Use a decimal point: groups of three digits are thousands, another comma is a decimal one."""
    if digits.isdecimal():
        return digits
    digits = _BETWEEN_DIGITS.sub("", digits)
    if _THOUSANDS.fullmatch(digits):
        return digits.replace(",", "")
    if _POINTED_THOUSANDS.fullmatch(digits):
        return digits.replace(".", "").replace(",", ".")
    return digits.replace(",", ".") if _DECIMAL_COMMA.fullmatch(digits) else digits


def _parse_unit(match: re.Match[str]) -> tuple[str, int]:
    """Return the unit and the end of the number: a word that is no unit does not belong to it."""
    if match["scale"]:
        bare_end = match.end("scale")
    else:
        bare_end = match.start("unit") if match["unit"] else match.end()
    word = (match["unit"] or "").lower()
    singular = word[:-1] if word.endswith("s") and word not in _UNITS else word
    if match["currency"]:
        currency = _CURRENCIES[match["currency"]]
        return currency, match.end() if singular in _CURRENCIES else bare_end
    unit = _UNITS.get(singular) or _CURRENCIES.get(singular)
    return (unit, match.end()) if unit else ("", bare_end)
