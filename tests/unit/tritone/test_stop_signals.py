from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tritone.stop_signals import stop_signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_first_asks_and_the_second_orders(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stop_signals() as stop:
        assert not stop.wait(0)
        os.kill(os.getpid(), number)
        assert stop.wait(1)
        assert (stop.is_requested, stop.is_forced) == (True, False)
        os.kill(os.getpid(), number)
        assert stop.is_forced
    assert signal.getsignal(number) is before


def test_interrupts_what_need_not_end_by_itself_but_only_once() -> None:
    with stop_signals() as stop:
        with pytest.raises(KeyboardInterrupt), stop.interrupting():
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.is_forced


STORM = """
import os, sys, time
for _ in range(2000):
    os.kill(int(sys.argv[1]), 15)
    time.sleep(0.0003)
"""


def test_a_signal_is_noted_whatever_the_thread_is_doing() -> None:
    before = signal.signal(signal.SIGTERM, lambda *_: None)  # between two blocks
    sender = subprocess.Popen([sys.executable, "-c", STORM, str(os.getpid())])
    noted = 0
    while sender.poll() is None:
        with stop_signals() as stop:
            while not stop.wait(0.0001) and sender.poll() is None:
                pass
            noted += stop.is_requested
    signal.signal(signal.SIGTERM, before)
    assert sender.returncode == 0
    assert noted > 100


def test_gives_its_pipe_back() -> None:
    before = os.listdir("/proc/self/fd")
    with stop_signals():
        pass
    assert os.listdir("/proc/self/fd") == before
