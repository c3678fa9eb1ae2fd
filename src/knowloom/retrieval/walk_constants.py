"""Fixed parameters of the walk; the tunable ones are the fields of `recipes.Walk`.

The ranking parameters were chosen on two tuning sets (docs/decisions/023-walk-parameters.md).
"""

from __future__ import annotations

# Seeds.
MAX_HITS_READ = 30  # hits whose titles and texts are read
MAX_QUERY_NAMES = 100  # names of a query that are looked up: a text with more is no question
QUERY_NAME_BOOST = 0.06  # added to the score of a seed that contains all names of the query
MIN_COMMON_TEXTS = 2  # other visited texts with a name that links none of them: it is too common
COMMON_SPECIFICITY = 0.2  # of such a name: the weight of a mention that as many texts have

# Edges.
FULL_EDGE_WEIGHT = 0.5  # an item whose edges weigh less in total passes on less of its rank
# Weight factor of an edge followed from its target to its source, by type; 1 for all others.
REVERSE_FACTORS = {"mentions": 0.3, "refers_to": 0.3}
ITEMS_READ_PER_HOP = (16, 8)  # neighbours whose texts are read: at the first hop, at later ones
INNER_WEIGHT = 1.0  # of an edge between passages of an item: one names the other's heading
MAX_EDGE_FACTOR = 8  # a long item has the edges of all its passages: this many times as many
MIN_PROXIMITY = 0.01  # keeps items without a vector in the walk
FULLY_LINKED = 0.4  # share of the seeds with full name edges at which the density counts as 1
# Share of name edges, by weight, below which links say nothing and above which they say everything.
NAME_SHARES = (0.25, 0.4)
# Density where all seeds are parts of loaded documents: a name in documentation or code is what the
# text is about, and seldom leads to what is missing (docs/decisions/037-questions-on-documents.md).
DOCUMENT_DENSITY = 0.1

# Bridges: temporary edges from the best seeds to hits that share their names.
BRIDGE = "bridge"  # the edge type; bridges are not stored
BRIDGED_SEEDS = 2
BRIDGES_PER_SEED = 10
# Edge types that stand for likeness: neither end names the other.
SIMILARITY_TYPES = frozenset((BRIDGE, "shares", "similar"))

# Query coverage.
MAX_SCANNED = 20_000  # characters of a text scanned for query terms and names
MAX_SCANNED_SYNONYMS = 4_000  # characters scanned for synonyms and for names of other items
MAX_QUERY_TERMS = 500  # larger sets are slow to weigh, and such a text is no question
MIN_COVERAGE = 0.05  # keeps items without a query term in the walk

# Scores.
SEARCH_TIEBREAK = 1e-3  # orders hits that the walk did not reach by their search score
REPETITION_PENALTY = 1.2  # lost share of the score of an item that repeats the best one
SERIES_PENALTY = 0.1  # lost share of the score of an item from the series of a better one
MAX_SERIES_ITEMS = 30  # best items whose titles are compared
NEW_TERM_REWARD = 0.08  # gained share of the score of an item with all query terms still missing
MAX_REWARDED = 12  # best items that are ordered by the terms they add
