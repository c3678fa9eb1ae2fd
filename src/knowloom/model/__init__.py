"""Items, edges, queries and contexts. Values only: no I/O, no other imports of the package."""

from knowloom.model.context import (
    Chosen,
    Citation,
    Context,
    Form,
    Fragment,
    LeftOut,
    Problem,
    Query,
    Stats,
)
from knowloom.model.filters import Filter
from knowloom.model.hits import Hit, Passage, ScoredPassage
from knowloom.model.items import (
    AUTOMATIC,
    LINES,
    LINK,
    RESERVED_PREFIX,
    SINCE,
    Change,
    Edge,
    EdgeKey,
    Item,
    Key,
    Kind,
)

__all__ = [
    "AUTOMATIC",
    "LINES",
    "LINK",
    "RESERVED_PREFIX",
    "SINCE",
    "Change",
    "Chosen",
    "Citation",
    "Context",
    "Edge",
    "EdgeKey",
    "Filter",
    "Form",
    "Fragment",
    "Hit",
    "Item",
    "Key",
    "Kind",
    "LeftOut",
    "Passage",
    "Problem",
    "Query",
    "ScoredPassage",
    "Stats",
]
