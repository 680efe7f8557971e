"""A model repository in NVIDIA's `inflight_batcher_llm` layout, with the least that can be in it. The code is ours."""

from __future__ import annotations

from pathlib import Path

HEAD = 'name: "{name}"\nmax_batch_size: ${{triton_max_batch_size}}\n'
PYTHON = """backend: "python"
parameters { key: "tokenizer_dir" value: { string_value: "${tokenizer_dir}" } }
"""
CONFIGS = {
    "preprocessing": PYTHON
    + """input { name: "QUERY" data_type: TYPE_STRING dims: 1 }
input { name: "END_ID" data_type: TYPE_INT32 dims: 1 }
output { name: "INPUT_ID" data_type: TYPE_INT32 dims: -1 }
output { name: "REQUEST_INPUT_LEN" data_type: TYPE_INT32 dims: 1 }
output { name: "OUT_END_ID" data_type: TYPE_INT32 dims: 1 }
parameters { key: "gpt_model_path" value: { string_value: "${engine_dir}" } }
instance_group { count: ${preprocessing_instance_count} kind: KIND_CPU }
""",
    "tensorrt_llm": """
backend: "${triton_backend}"
model_transaction_policy { decoupled: ${decoupled_mode} }
dynamic_batching { max_queue_delay_microseconds: ${max_queue_delay_microseconds} }
input { name: "input_ids" data_type: TYPE_INT32 dims: -1 allow_ragged_batch: true optional: true }
input { name: "input_lengths" data_type: TYPE_INT32 dims: 1 reshape: { shape: [] } }
input { name: "request_output_len" data_type: TYPE_INT32 dims: 1 reshape: { shape: [] } }
input { name: "end_id" data_type: TYPE_INT32 dims: 1 reshape: { shape: [] } optional: true }
input { name: "streaming" data_type: TYPE_BOOL dims: 1 reshape: { shape: [] } optional: true }
output { name: "output_ids" data_type: TYPE_INT32 dims: [-1, -1] }
output { name: "sequence_length" data_type: TYPE_INT32 dims: -1 }
""",
    "postprocessing": PYTHON
    + """input { name: "TOKENS_BATCH" data_type: TYPE_INT32 dims: [-1, -1] }
input { name: "SEQUENCE_LENGTH" data_type: TYPE_INT32 dims: -1 }
output { name: "OUTPUT" data_type: TYPE_STRING dims: -1 }
instance_group { count: ${postprocessing_instance_count} kind: KIND_CPU }
""",
    "ensemble": """
platform: "ensemble"
input { name: "text_input" data_type: TYPE_STRING dims: 1 }
input { name: "max_tokens" data_type: TYPE_INT32 dims: 1 }
input { name: "end_id" data_type: TYPE_INT32 dims: 1 optional: true }
input { name: "stream" data_type: TYPE_BOOL dims: 1 optional: true }
output { name: "text_output" data_type: TYPE_STRING dims: -1 }
ensemble_scheduling {
  step {
    model_name: "preprocessing" model_version: -1
    input_map { key: "QUERY" value: "text_input" }
    input_map { key: "END_ID" value: "end_id" }
    output_map { key: "INPUT_ID" value: "_INPUT_ID" }
    output_map { key: "REQUEST_INPUT_LEN" value: "_REQUEST_INPUT_LEN" }
    output_map { key: "OUT_END_ID" value: "_END_ID" }
  }
  step {
    model_name: "tensorrt_llm" model_version: -1
    input_map { key: "input_ids" value: "_INPUT_ID" }
    input_map { key: "input_lengths" value: "_REQUEST_INPUT_LEN" }
    input_map { key: "request_output_len" value: "max_tokens" }
    input_map { key: "end_id" value: "_END_ID" }
    input_map { key: "streaming" value: "stream" }
    output_map { key: "output_ids" value: "_TOKENS_BATCH" }
    output_map { key: "sequence_length" value: "_SEQUENCE_LENGTH" }
  }
  step {
    model_name: "postprocessing" model_version: -1
    input_map { key: "TOKENS_BATCH" value: "_TOKENS_BATCH" }
    input_map { key: "SEQUENCE_LENGTH" value: "_SEQUENCE_LENGTH" }
    output_map { key: "OUTPUT" value: "text_output" }
  }
}
""",
}

MODEL = """
import json
import numpy as np
import triton_python_backend_utils as pb_utils
from tokenizers import Tokenizer

class TritonPythonModel:
    def initialize(self, args):
        folder = json.loads(args["model_config"])["parameters"]["tokenizer_dir"]["string_value"]
        self.tokenizer = Tokenizer.from_file(folder + "/tokenizer.json")

    def execute(self, requests):
        return [
            self.answer(lambda name: pb_utils.get_input_tensor_by_name(request, name).as_numpy())
            for request in requests
        ]
"""
ANSWERS = {
    "preprocessing": """
    def answer(self, read):
        ids = self.tokenizer.encode(read("QUERY")[0][0].decode()).ids
        return pb_utils.InferenceResponse([
            pb_utils.Tensor("INPUT_ID", np.array([ids], np.int32)),
            pb_utils.Tensor("REQUEST_INPUT_LEN", np.array([[len(ids)]], np.int32)),
            pb_utils.Tensor("OUT_END_ID", read("END_ID")),
        ])
""",
    "postprocessing": """
    def answer(self, read):
        (batch, beams, _), lengths = read("TOKENS_BATCH").shape, read("SEQUENCE_LENGTH")
        assert (batch, beams, lengths.shape) == (1, 1, (1, 1))
        text = self.tokenizer.decode(read("TOKENS_BATCH")[0][0][: lengths[0][0]].tolist())
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", np.array([text.encode()], np.object_))])
""",
}


def write_layout(source: Path) -> None:
    """Write the four folders, placeholders unfilled, as NVIDIA ships them."""
    for folder, config in CONFIGS.items():
        (source / folder / "1").mkdir(parents=True)
        (source / folder / "config.pbtxt").write_text(HEAD.format(name=folder) + config)
    for folder, answer in ANSWERS.items():
        (source / folder / "1" / "model.py").write_text(MODEL + answer)
