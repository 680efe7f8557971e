from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postprocess.stop_matcher import StopAutomaton, StopMatcher

STOPS = st.lists(st.text("ab", max_size=4), max_size=5)
PIECES = st.lists(st.text("abc", max_size=6), max_size=8)


def run(matcher: StopMatcher, pieces: Sequence[str]) -> list[str]:
    return [*map(matcher.feed, pieces), matcher.flush()]


def earliest_completing(text: str, stops: Sequence[str]) -> tuple[int, int] | None:
    """Start and end of the match that a character-by-character reading completes first, the longest if several do."""
    for end in range(len(text) + 1):
        lengths = [len(stop) for stop in stops if stop and text[:end].endswith(stop)]
        if lengths:
            return end - max(lengths), end
    return None


@given(STOPS, PIECES, st.booleans())
def test_cuts_where_the_obvious_search_does(stops: list[str], pieces: list[str], include_stop: bool) -> None:
    matcher = StopMatcher(stops, include_stop=include_stop)
    text = "".join(pieces)
    match = earliest_completing(text, stops)
    expected = text if match is None else text[: match[1] if include_stop else match[0]]
    assert "".join(run(matcher, pieces)) == expected
    assert matcher.is_stopped == (match is not None)


@given(STOPS, PIECES)
def test_holds_back_exactly_the_longest_proper_prefix(stops: list[str], pieces: list[str]) -> None:
    matcher, text, released = StopMatcher(stops), "", ""
    for piece in pieces:
        text += piece
        released += matcher.feed(piece)
        if matcher.is_stopped:
            return
        prefixes = {stop[:length] for stop in stops for length in range(len(stop))} | {""}
        assert text == released + max((p for p in prefixes if text.endswith(p)), key=len)


@given(STOPS, PIECES)
def test_end_is_counted_in_the_last_text_fed(stops: list[str], pieces: list[str]) -> None:
    matcher, text = StopMatcher(stops, include_stop=True), ""
    for piece in pieces:
        matcher.feed(piece)
        if matcher.is_stopped:
            match = earliest_completing(text + piece, stops)
            assert match == (match and (match[0], len(text) + matcher.end))
            return
        text += piece


@pytest.mark.parametrize(
    ("stops", "pieces", "expected"),
    [
        (["DEFGHIJ"], ["ABC", "DEF", "G", "HI", "J", "K"], ["ABC", "", "", "", "", "", ""]),
        (["DEFGHIJ"], ["ABC", "DEF", "G", "X"], ["ABC", "", "", "DEFGX", ""]),
        (["bcde", "cd"], ["abcde"], ["ab", ""]),
        (["cd", "bcd"], ["abcde"], ["a", ""]),
        (["\n\n"], ["a\n", "b\n", "\nc"], ["a", "\nb", "", ""]),
        (["aab"], ["a", "a", "a", "b"], ["", "", "a", "", ""]),
        (["[x]", "^", "-", "\\"], ["a[x", "-"], ["a", "[x", ""]),
        ([""], ["a", "b"], ["a", "b", ""]),
        ([], ["a"], ["a", ""]),
    ],
    ids=["across", "diverging", "first end", "longest", "released", "overlap", "regex signs", "empty", "none"],
)
def test_examples(stops: list[str], pieces: list[str], expected: list[str]) -> None:
    assert run(StopMatcher(stops), pieces) == expected


def test_nothing_comes_after_the_stop_string() -> None:
    matcher = StopMatcher(["x"], include_stop=True)
    assert matcher.feed("axb") == "ax"
    assert run(matcher, ["x", "c"]) == ["", "", ""]


def test_a_stop_string_that_almost_completes_costs_linear_work(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    step = StopAutomaton.step

    def counting_step(automaton: StopAutomaton, state: int, character: str) -> int:
        looked_at.append(character)
        return step(automaton, state, character)

    matcher = StopMatcher(["a" * 50 + "b", *(f"stop{n}" for n in range(100))])
    monkeypatch.setattr(StopAutomaton, "step", counting_step)
    assert len("".join(matcher.feed("a") for _ in range(2000))) == 1950
    assert len(looked_at) == 2000
    assert matcher.feed("plain" * 1000) == "a" * 50 + "plain" * 1000
    assert len(looked_at) == 2000 + 1 + 2 * 1000
