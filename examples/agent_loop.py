"""From an expert's note to an agent that acts on it, in ten steps, with a scripted model.

Run it: python examples/agent_loop.py        Needs: pip install 'knowloom[openai,templates]'
Use your own model: replace `llm.base_url` by its address and `ask` by your client.
"""

from __future__ import annotations

import json

from scripted_llm import ScriptedLLM, ask

import knowloom

SPACE, EXPERT = "support", "user:maya"
NOTE = (
    "Freeze the payout of the seller before you refund a marketplace order: "
    "it prevents a loss in nine of ten disputes."
)
REQUEST = "Refund marketplace order 4711"
PROMPT = """\
# Who you work for
{{ user_profile }}

# Rules to obey
{{ instructions }}

# Background
{{ context }}

User request: {{ user_input }}
"""
STRUCTURED = {
    "metadata": {
        EXPERT: {
            "entity_type": "user",
            "properties": {"team": "Customer Care", "role": "team lead"},
        }
    },
    "pieces": [
        {
            "piece_id": "freeze-payout",
            "content": "Freeze the seller's payout before refunding a marketplace order",
            "knowledge_type": "procedure",
            "info_type": "instructions",
            "tags": ["marketplace", "refund"],
            "entity_id": EXPERT,
        },
        {
            "piece_id": "dispute-rate",
            "content": "A frozen payout prevents a loss in 9 of 10 marketplace disputes",
            "knowledge_type": "fact",
            "info_type": "context",
        },
    ],
    "graph": {
        "nodes": [{"node_id": "process:refund", "node_type": "process", "label": "Refunds"}],
        "edges": [
            {
                "source_id": EXPERT,
                "target_id": "process:refund",
                "edge_type": "APPROVES",
                "properties": {"piece_id": "freeze-payout"},
            }
        ],
    },
}
RULES = (
    (("The notes:", NOTE), json.dumps(STRUCTURED)),
    (
        ("# Rules to obey", "Freeze the seller's payout"),
        "1. Freeze the seller's payout. 2. Refund order 4711. 3. Tell the customer.",
    ),
    (("User request",), "1. Refund order 4711."),
)


def main() -> None:
    with ScriptedLLM(RULES) as llm, knowloom.open("memory:", embedder=None) as kb:
        step(1, "The expert says", NOTE)
        model = knowloom.open_llm(f"openai:scripted@{llm.base_url}")
        structured = kb.ingest(
            NOTE, llm=model, space=SPACE, entity=EXPERT, record_dir=None, dry_run=True
        ).layers
        step(
            2,
            "The model structures it",
            f"{len(structured['pieces'])} pieces, {len(structured['graph']['edges'])} link",
        )
        report = kb.load(structured, space=SPACE)  # without dry_run, ingest does this too
        step(3, "It is stored", f"{report.added} items, {report.edges} link")
        step(4, "The agent is asked", REQUEST)
        provider = knowloom.Provider(kb, entity_id=EXPERT, spaces=[SPACE], max_tokens=200)
        step(5, "The provider is called", f"entity {EXPERT}, at most 200 tokens")
        retrieval = provider.retrieve(REQUEST)
        pieces = ", ".join(
            f"{hit.item.id} {hit.score:.2f} ({'+'.join(hit.found_by)})" for hit in retrieval.pieces
        )
        links = ", ".join(
            f"{relation.type} {relation.edge.target} at depth {relation.depth}"
            for relation in retrieval.graph_context
        )
        step(
            6,
            "Three layers answer",
            f"metadata: {', '.join(sorted(retrieval.metadata[0].properties))}\n"
            f"pieces: {pieces}\ngraph: {links}",
        )
        knowledge = provider(REQUEST)
        step(7, "By section", json.dumps(knowledge, indent=2))
        feed = knowloom.merge_feed(
            {"user_profile": "", "instructions": "", "context": "", "user_input": REQUEST},
            knowledge,
        )
        step(
            8,
            "Merged into the feed",
            ", ".join(f"{name}: {len(text)} characters" for name, text in feed.items()),
        )
        prompt = knowloom.Template(PROMPT).render("prompt", feed)
        step(9, "The prompt", prompt)
        step(10, "The model answers", ask(llm.base_url, prompt))


def step(number: int, title: str, text: str) -> None:
    print(f"== {number}. {title}\n{text.rstrip()}\n")


if __name__ == "__main__":
    main()
