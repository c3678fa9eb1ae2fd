"""Types, weights and caps of edges by name; counts that a store can keep are all they depend on."""

from __future__ import annotations

import math

MENTIONS, REFERS_TO, SHARES, FOREIGN_KEY = "mentions", "refers_to", "shares", "foreign_key"

MAX_HOLDERS = 20  # a name of more items identifies none; sections often share their page's title
MAX_HEADING_HOLDERS = 5  # a heading of more items recurs in documents and identifies none
MAX_MENTIONS = 200  # a name that occurs in more texts is too common to link them
MAX_LINKS_PER_NAME = 1000  # texts times holders
MAX_ADDRESSEES = 5  # items that one address may point to
MAX_SHARING = 10  # a name without an item links the texts that contain it, if they are this few
MAX_TEXTS_PER_KEY = 1000  # a name is not searched for if more texts contain its blocking key
MAX_REFERRERS = 1000  # an address that more items refer to is boilerplate


def mention_weight(holders: int, texts: int) -> float:
    """Return the weight of a mention: lower for ambiguous names and for frequent ones."""
    return round(1 / holders / math.sqrt(1 + 0.1 * (texts - 1)), 6)


def is_linkable(holders: int, texts: int) -> bool:
    """Return True if a name links the texts that contain it to the items that go by it."""
    if holders > MAX_HOLDERS or texts > MAX_MENTIONS:
        return False
    return holders * texts <= MAX_LINKS_PER_NAME


def shared_name_weight(texts: int) -> float:
    """Return the weight of a shared name: always below that of an unambiguous mention."""
    return round(0.25 / texts, 6)
