from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from preprocess.tokenizer import PromptTokenizer, load_tokenizer
from tests.toy_tokenizers import BLANK_HELLO, BOS, EOS, IM_START, byte_fallback_tokenizer, byte_level_tokenizer
from tests.unit.preprocess.toy_models import write_bos_model, write_model


def load(folder: Path) -> PromptTokenizer:
    return load_tokenizer(folder, trust_remote_code=False)[0]


def test_texts_become_ids_and_special_tokens_written_out_are_those_tokens(tmp_path: Path) -> None:
    tokenizer = load(write_model(tmp_path))
    ids = tokenizer.encode_batch(["he\x00llo", "", "a<|im_start|>", "é"])
    assert ids == [[104, 101, 0, 108, 108, 111], [], [97, IM_START], [0xC3, 0xA9]]
    assert tokenizer.decode([97, IM_START]) == "a<|im_start|>"


def test_a_plain_prompt_gets_exactly_one_bos(tmp_path: Path) -> None:
    tokenizer = load(write_bos_model(tmp_path))
    hello, already, nothing = tokenizer.encode_batch(["Hello", "<s>Hello", ""])
    assert tokenizer.surround(hello) == [BOS, BLANK_HELLO]
    assert tokenizer.surround(already).count(BOS) == 1
    assert tokenizer.surround(nothing) == [BOS]


def test_tokens_after_a_text_are_kept(tmp_path: Path) -> None:
    backend = byte_fallback_tokenizer()
    specials = [("<s>", BOS), ("</s>", EOS)]
    backend.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=specials)
    tokenizer = load(write_model(tmp_path, backend, bos_token="<s>", eos_token="</s>"))
    assert tokenizer.surround([BLANK_HELLO]) == [BOS, BLANK_HELLO, EOS]


def test_truncation_and_padding_of_the_file_are_off(tmp_path: Path) -> None:
    backend = byte_level_tokenizer()
    backend.enable_truncation(2)
    backend.enable_padding(length=8)
    assert load(write_model(tmp_path, backend)).encode_batch(["abc", "d"]) == [[97, 98, 99], [100]]


def test_the_file_counts_not_what_its_class_name_would_make_of_it(tmp_path: Path) -> None:
    backend = Tokenizer(models.BPE(vocab={"1": 0, "2": 1, "12": 2, "a": 3}, merges=[("1", "2")]))
    digits = pre_tokenizers.Digits(individual_digits=True)
    backend.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer = load(write_model(tmp_path, backend, tokenizer_class="GPT2Tokenizer"))
    assert tokenizer.encode_batch(["12"]) == [[0, 1]]


def test_a_folder_without_tokenizer_json_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^tokenizer_dir: .*tokenizer\.json does not exist"):
        load(tmp_path)


def test_the_longest_token_bounds_how_much_text_a_token_can_hold(tmp_path: Path) -> None:
    assert load(write_model(tmp_path)).longest_token_chars == len("<|im_start|>")
