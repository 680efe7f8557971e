"""Finds stop strings in a text that arrives in pieces. Runs in Triton's Python backend.

The match that is complete first ends the answer; of those complete at the same character the longest, which started
earliest, is cut out. Text is held back only while it is a proper prefix of some stop string.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable


class StopAutomaton:
    """Aho-Corasick automaton: a state stands for the longest text end that begins a stop string; 0 for none.

    `depth[state]` is the length of that text end, `match[state]` the length of the longest stop string that is complete
    there, 0 for none.
    """

    def __init__(self, stops: Iterable[str]) -> None:
        self._next: list[dict[str, int]] = [{}]
        self._fallback = [0]
        self.depth = [0]
        self.match = [0]
        for stop in stops:
            self._insert(stop)
        self._link()

    def step(self, state: int, character: str) -> int:
        """The state after one more character."""
        while state and character not in self._next[state]:
            state = self._fallback[state]
        return self._next[state].get(character, 0)

    def _insert(self, stop: str) -> None:
        state = 0
        for character in stop:
            state = self._next[state].get(character) or self._add_state(state, character)
        self.match[state] = len(stop)

    def _add_state(self, parent: int, character: str) -> int:
        state = self._next[parent][character] = len(self._next)
        self._next.append({})
        self._fallback.append(0)
        self.depth.append(self.depth[parent] + 1)
        self.match.append(0)
        return state

    def _link(self) -> None:
        queue = deque([0])  # breadth first: a fallback is shorter, so it is complete before it is needed
        while queue:
            parent = queue.popleft()
            for character, state in self._next[parent].items():
                queue.append(state)
                fallback = self.step(self._fallback[parent], character) if parent else 0
                self._fallback[state] = fallback
                self.match[state] = self.match[state] or self.match[fallback]


class StopMatcher:
    """State of one stream. Work per character is constant, however many stop strings there are."""

    def __init__(self, stops: Iterable[str], *, include_stop: bool = False) -> None:
        """Empty strings in `stops` mean none. `include_stop` keeps the stop string at the end of the text."""
        stops = [stop for stop in stops if stop]
        self._has_stops = bool(stops)
        self._automaton = StopAutomaton(stops)
        self._include_stop = include_stop
        firsts = {re.escape(stop[0]) for stop in stops}
        self._next_first = re.compile("|".join(sorted(firsts))).search
        self._state = 0
        self._held = ""
        self.is_stopped = False
        self.end = 0
        """Once stopped: how many characters of the last text fed are up to the end of the stop string."""

    def feed(self, text: str) -> str:
        """Text that is certain after `text`: all but what is held back, and nothing from a stop string on."""
        if self.is_stopped:
            return ""
        if not self._has_stops or not (self._held or self._next_first(text)):
            return text
        held, text = len(self._held), self._held + text
        end = self._scan(text, held)
        if end:
            self.is_stopped, self._held, self.end = True, "", end - held
            return text[: end if self._include_stop else end - self._automaton.match[self._state]]
        certain = len(text) - self._automaton.depth[self._state]
        self._held = text[certain:]
        return text[:certain]

    def flush(self) -> str:
        """What is held back, for a text that ends without a stop string."""
        text, self._held, self._state = self._held, "", 0
        return text

    def _scan(self, text: str, position: int) -> int:
        """The end of the first complete stop string in `text`, searched from `position` on; 0 if there is none."""
        while position < len(text):
            if not self._state:
                first = self._next_first(text, position)  # at C speed over all that cannot begin a stop string
                if first is None:
                    return 0
                position = first.start()
            self._state = self._automaton.step(self._state, text[position])
            position += 1
            if self._automaton.match[self._state]:
                return position
        return 0
