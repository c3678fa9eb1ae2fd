"""Items, edges, queries and contexts. Values only: no I/O, no other imports of the package."""

from knowloom.model.condition import ItemCondition
from knowloom.model.context import (
    SHOWN_BEFORE,
    Chosen,
    Citation,
    Context,
    ContextFormat,
    Form,
    Fragment,
    LeftOut,
    Query,
    Stats,
)
from knowloom.model.filter import Filter
from knowloom.model.hit import Hit, Hits, Passage, ScoredPassage
from knowloom.model.item import (
    AUTOMATIC,
    LINES,
    LINK,
    METADATA,
    PLACES,
    RESERVED_PREFIX,
    SINCE,
    Change,
    Edge,
    EdgeKey,
    Item,
    Key,
    Kind,
)
from knowloom.model.problem import PROBLEM_CODES, Problem, Severity
from knowloom.model.turn import Earlier, Shown, content_version, merge_shown

__all__ = [
    "AUTOMATIC",
    "LINES",
    "LINK",
    "METADATA",
    "PLACES",
    "PROBLEM_CODES",
    "RESERVED_PREFIX",
    "SHOWN_BEFORE",
    "SINCE",
    "Change",
    "Chosen",
    "Citation",
    "Context",
    "ContextFormat",
    "Earlier",
    "Edge",
    "EdgeKey",
    "Filter",
    "Form",
    "Fragment",
    "Hit",
    "Hits",
    "Item",
    "ItemCondition",
    "Key",
    "Kind",
    "LeftOut",
    "Passage",
    "Problem",
    "Query",
    "ScoredPassage",
    "Severity",
    "Shown",
    "Stats",
    "content_version",
    "merge_shown",
]
