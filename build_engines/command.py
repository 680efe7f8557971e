"""The command line: `python -m build_engines`, `tritone build`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from build_engines.checkpoint import read_checkpoint
from build_engines.errors import BuildError
from build_engines.gpus import GPUS, Gpu, detect_gpus, find_gpu, parse_memory
from build_engines.picture import memory_picture
from build_engines.plan import DEFAULT_MAX_NUM_TOKENS, MOST_SEQS, TYPICAL_LEN, Options, make_plan, other_plans
from build_engines.precision import DTYPES, KV_DTYPES, QUANTIZATIONS
from build_engines.show import as_json, as_text


def main(arguments: Sequence[str] | None = None, prog: str = "python -m build_engines") -> int:
    """Run it; the exit status: 2 for what cannot work."""
    parser = _parser(prog)
    given = parser.parse_args(arguments)
    try:
        given.run(given)
    except BuildError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 2
    return 0


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description="Plan TensorRT-LLM engines for a GPU.")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    plan = verbs.add_parser("plan", help="what fits on a GPU, and the limits to build with")
    _add_plan_options(plan)
    plan.set_defaults(run=_show_plan)
    return parser


def _add_plan_options(plan: argparse.ArgumentParser) -> None:
    plan.add_argument("model", type=Path, metavar="MODEL", help="a Hugging Face folder, or its config.json alone")
    where = plan.add_argument_group("the GPU")
    where.add_argument("--gpu", help=f"{', '.join(GPUS)}, or auto: this machine's")
    where.add_argument("--memory", help="instead of a name: what CUDA sees, such as 80GiB")
    where.add_argument("--sm", type=int, help="with --memory: the compute capability times ten, such as 90")
    where.add_argument("--gpus", type=int, metavar="N", help="how many there are (default: as many as needed, up to 8)")
    how = plan.add_argument_group("how the model is run")
    how.add_argument("--tp", type=int, metavar="N", help="tensor-parallel size (default: the least that fits)")
    how.add_argument("--ep", type=int, default=1, metavar="N", help="expert-parallel size, divides tp (default: 1)")
    how.add_argument("--dtype", default="auto", help=f"auto, {', '.join(DTYPES)} (default: the checkpoint's)")
    how.add_argument("--quant", help=f"none, {', '.join(QUANTIZATIONS)} (default: as the checkpoint is)")
    how.add_argument("--kv-dtype", default="auto", help=f"{', '.join(KV_DTYPES)} (default: auto, the model's)")
    how.add_argument("--kv-fraction", type=float, default=0.9, metavar="X", help="of what is left, for the cache (0.9)")
    limits = plan.add_argument_group("limits, in tokens and sequences")
    limits.add_argument("--max-model-len", type=int, metavar="N", help="prompt and answer (default: what fits)")
    limits.add_argument("--max-input-len", type=int, metavar="N", help="prompt alone (default: max-model-len - 1)")
    limits.add_argument(
        "--max-num-seqs", type=int, metavar="N", help=f"running at once (default: what fits, at most {MOST_SEQS})"
    )
    limits.add_argument(
        "--max-num-tokens",
        type=int,
        metavar="N",
        help=f"of all in a step (default: {DEFAULT_MAX_NUM_TOKENS})",
    )
    limits.add_argument(
        "--typical-len",
        type=int,
        default=TYPICAL_LEN,
        metavar="N",
        help=f"how long a sequence mostly is, for the default of --max-num-seqs ({TYPICAL_LEN})",
    )
    limits.add_argument("--no-chunked-context", action="store_true", help="a prompt must fit into one step")
    shown = plan.add_argument_group("output")
    shown.add_argument("--json", action="store_true", help="JSON instead of tables")
    shown.add_argument("--svg", type=Path, metavar="FILE", help="write a picture of the memory, too")


def _gpu(given: argparse.Namespace) -> tuple[Gpu, int | None]:
    """The GPU that was named, and how many there are, if known."""
    if given.gpu and (given.memory or given.sm):
        raise BuildError("gpu: give a name, or --memory and --sm, not both")
    if given.gpus is not None and given.gpus < 1:
        raise BuildError(f"gpus: {given.gpus} is not a number of GPUs")
    if given.gpu == "auto":
        found = detect_gpus()
        return min(found, key=lambda gpu: gpu.memory), min(len(found), given.gpus or len(found))
    if given.gpu:
        return find_gpu(given.gpu), given.gpus
    if given.memory is None or given.sm is None:
        raise BuildError(f"gpu: give --gpu ({', '.join(GPUS)}, or auto), or --memory and --sm")
    if not 50 <= given.sm <= 200:
        raise BuildError(f"sm: {given.sm} is no compute capability times ten, such as 80, 89, 90 or 100")
    return Gpu("GPU", parse_memory(given.memory), given.sm), given.gpus


def _show_plan(given: argparse.Namespace) -> None:
    gpu, gpus = _gpu(given)
    options = Options(
        gpu=gpu,
        gpus=gpus,
        tp=given.tp,
        ep=given.ep,
        dtype=given.dtype,
        quant=given.quant,
        kv_dtype=given.kv_dtype,
        max_model_len=given.max_model_len,
        max_input_len=given.max_input_len,
        max_num_seqs=given.max_num_seqs,
        max_num_tokens=given.max_num_tokens,
        chunked_context=not given.no_chunked_context,
        kv_fraction=given.kv_fraction,
        typical_len=given.typical_len,
    )
    checkpoint = read_checkpoint(given.model)
    name = given.model.resolve().name if given.model.is_dir() else given.model.stem
    plan, others = make_plan(checkpoint, options), other_plans(checkpoint, options)
    if given.json:
        sys.stdout.write(json.dumps(as_json(name, plan, others), indent=2) + "\n")
    else:
        sys.stdout.write(as_text(name, plan, others))
    if given.svg:
        given.svg.write_text(memory_picture(name, plan), encoding="utf-8")
