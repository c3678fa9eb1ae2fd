"""Save and load a Haystack pipeline with knowloom, and print the prompt for a model."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")  # read when Haystack is imported

from haystack import Pipeline
from haystack.components.builders import PromptBuilder

import knowloom

EXAMPLE = Path(__file__).resolve().parent / "harbor"
QUESTION = "How do I process a refund request?"
PROMPT = """Answer from this knowledge:
{% for document in documents %}
{{ document.content }}
{% endfor %}
Question: {{ question }}"""


def save_pipeline(path: Path) -> str:
    """Return the pipeline as YAML; it names the file, so that another program can load it."""
    pipeline = Pipeline()
    pipeline.add_component(
        "knowledge",
        knowloom.HaystackRetriever(
            str(path), spaces=["support", "shared"], max_tokens=500, embedder=None
        ),
    )
    pipeline.add_component("prompt", PromptBuilder(PROMPT, required_variables="*"))
    pipeline.connect("knowledge.documents", "prompt.documents")
    return pipeline.dumps()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "knowledge.db"
        with knowloom.open(str(path), embedder=None) as kb:
            kb.load(EXAMPLE)
        pipeline = Pipeline.loads(
            save_pipeline(path), allowed_modules=["knowloom.integrations.haystack"]
        )
        inputs = {"knowledge": {"query": QUESTION}, "prompt": {"question": QUESTION}}
        answer = pipeline.run(inputs, include_outputs_from={"knowledge"})
        pipeline.close()

    print(answer["prompt"]["prompt"])
    print("\nwhere it came from:")
    for document in answer["knowledge"]["documents"]:
        meta = document.meta
        print(f"  {meta['tokens']:>4} tokens  {meta['part']:<12}  {document.id}: {meta['why']}")


if __name__ == "__main__":
    main()
