"""Errors of dpsim and of llm-analysis on the same published steps of language models.

Write dpsim's predictions by ``dpsim validate reference llm llm_fsdp.csv -o predictions.csv``. Then,
in an environment that has llm-analysis (whose requirements exclude those of dpsim's extra hf):
``python -m tools.peers llm_fsdp.csv predictions.csv``. It takes dense models in bf16, in data
parallelism alone, on GPUs that both know.

llm-analysis gets each model's sizes, the batch, recomputation and the ZeRO stage. The fraction of
the GPU's peak is its user's to choose: here its default, 1, and the one with the least median error
on these very rows, while dpsim's constants have not seen a row's model.
"""

from __future__ import annotations

import argparse
import csv
import logging
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median

_GPUS = ("a100-sxm-40gb", "a100-sxm-80gb", "h100-sxm-80gb")
_STAGES = {"ddp": 0, "zero1": 1, "fsdp_full": 3}
_RECOMPUTED = {"none": "NONE", "full": "FULL"}
_GATED = ("llama", "internlm", "olmo")
_FRACTIONS = [percent / 100 for percent in range(30, 101, 5)]  # of the GPU's peak

_Row = dict[str, str]


def main() -> None:
    """Print the number of rows, and the median and mean error of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path, help="the published rows: llm_fsdp.csv")
    parser.add_argument("predictions", type=Path, help="dpsim's predictions of them, as CSV")
    options = parser.parse_args()
    dpsim_errors = {
        row["row_id"]: float(row["ape"])
        for row in _rows(options.predictions)
        if row["status"] == "counted"
    }
    rows = [row for row in _rows(options.table) if row["row_id"] in dpsim_errors and _is_known(row)]
    logging.disable()
    answers = [(row, _errors(row)) for row in rows]
    kept = [(row, found) for row, found in answers if found is not None]
    errors = dict(zip(_FRACTIONS, zip(*(found for _, found in kept), strict=True), strict=True))
    refused = len(rows) - len(kept)
    print(f"{len(kept)} rows; llm-analysis has no room for {refused} more, which ran")
    _print_errors("dpsim", [dpsim_errors[row["row_id"]] for row, _ in kept])
    best = min(_FRACTIONS, key=lambda fraction: median(errors[fraction]))
    _print_errors(f"llm-analysis, {best:.0%} of the peak, the best for these rows", errors[best])
    _print_errors("llm-analysis, as it comes", errors[1.0])


def _rows(path: Path) -> list[_Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _is_known(row: _Row) -> bool:
    """Return whether llm-analysis has words for all of a row."""
    return (
        (row["gpu"] in _GPUS and row["precision"] == "bf16")
        and (row["tp"], row["pp"], row["cp"]) == ("1", "1", "1")
        and (row["sharding"] in _STAGES and row["act_ckpt"] in _RECOMPUTED)
        and all(row[name] for name in ("layers", "heads", "hidden", "vocab", "ffn", "micro_batch"))
    )


def _errors(row: _Row) -> list[float] | None:
    """Return the relative errors of llm-analysis at each fraction of the GPU's peak.

    None if it says that the step, which ran, does not fit.
    """
    from llm_analysis import analysis, config  # type: ignore[import-not-found, unused-ignore]

    seq_len, hidden = int(row["seq_len"]), int(row["hidden"])
    # Its MLPs are whole multiples of the hidden size, so a gated one becomes a plain one as costly.
    matrices = 1.5 if row["model"].startswith(_GATED) else 1.0
    multiple = round(matrices * int(row["ffn"]) / hidden)
    model = config.ModelConfig(
        name=row["model"],
        num_layers=int(row["layers"]),
        n_head=int(row["heads"]),
        hidden_dim=hidden,
        vocab_size=int(row["vocab"]),
        max_seq_len=seq_len,
        num_key_value_heads=int(row["kv_heads"] or row["heads"]),
        ffn_embed_dim=multiple * hidden,
    )
    errors = []
    for fraction in _FRACTIONS:
        peer = analysis.LLMAnalysis(
            model,
            config.get_gpu_config_by_name(row["gpu"]),
            config.get_dtype_config_by_name("w16a16e16"),
            config.ParallelismConfig(dp_size=int(row["gpus"])),
            flops_efficiency=fraction,
            hbm_memory_efficiency=1,
        )
        try:
            predicted = peer.training(
                batch_size_per_gpu=int(row["micro_batch"]),
                gradient_accumulation_steps=int(row["grad_accum"] or 1),
                seq_len=seq_len,
                activation_recomputation=analysis.ActivationRecomputation[
                    _RECOMPUTED[row["act_ckpt"]]
                ],
                ds_zero=analysis.DSZeRO(_STAGES[row["sharding"]]),
            )
        except AssertionError:
            return None
        errors.append(abs(float(predicted["latency_per_iter"]) / float(row["step_time_s"]) - 1))
    return errors


def _print_errors(who: str, errors: Sequence[float]) -> None:
    print(f"{who}: median {median(errors):.1%}, mean {mean(errors):.1%}")


if __name__ == "__main__":
    main()
