"""Named crash points: written as in the environment, and what they do."""

import os
import signal
import subprocess
import sys

import pytest

from celery_dbbeat import failpoints
from celery_dbbeat.errors import SettingsError
from celery_dbbeat.failpoints import NAMES, FailpointReached, hit, parse

HIT = "import sys; from celery_dbbeat.failpoints import hit; [hit(n) for n in sys.argv[1:]]"


def child(setting: str, *names: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, failpoints.VARIABLE: setting}
    return subprocess.Popen(
        [sys.executable, "-c", HIT, *names], env=environment, stderr=subprocess.PIPE
    )


def arm(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(failpoints, "_armed", parse(text))


class TestParse:
    @pytest.mark.parametrize("text", ["", " ", ",", " , "])
    def test_nothing_is_nothing(self, text: str) -> None:
        assert parse(text) == {}

    @pytest.mark.parametrize("name", NAMES)
    def test_every_name_is_known(self, name: str) -> None:
        assert list(parse(f"{name}=raise")) == [name]

    def test_several_are_parted_by_commas(self) -> None:
        assert list(parse("before_claim=kill, after_mark=sleep:0.5@2")) == [
            "before_claim",
            "after_mark",
        ]

    @pytest.mark.parametrize(
        "text",
        [
            "after_lunch=kill",
            "after_claim",
            "after_claim=",
            "after_claim=explode",
            "after_claim=raise@soon",
            "after_claim=sleep",
            "after_claim=sleep:a while",
        ],
    )
    def test_what_is_wrong_is_refused_with_what_is_allowed(self, text: str) -> None:
        with pytest.raises(SettingsError) as error:
            parse(f"before_mark=raise,{text}")
        assert failpoints.VARIABLE in str(error.value)
        assert repr(text) in str(error.value)
        assert "kill|stop|raise|sleep:SECONDS[@NTH]" in str(error.value)
        assert "after_claim" in str(error.value)


class TestHit:
    def test_in_production_nothing_happens(self) -> None:
        assert failpoints._armed == {}
        for name in NAMES:
            hit(name)

    def test_raise_every_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        arm(monkeypatch, "after_plan=raise")
        hit("after_claim")
        for _ in range(2):
            with pytest.raises(FailpointReached, match="after_plan"):
                hit("after_plan")

    def test_only_the_nth_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        arm(monkeypatch, "after_plan=raise@3")
        hit("after_plan")
        hit("after_plan")
        with pytest.raises(FailpointReached):
            hit("after_plan")
        hit("after_plan")

    def test_sleep(self, monkeypatch: pytest.MonkeyPatch) -> None:
        slept: list[float] = []
        monkeypatch.setattr("time.sleep", slept.append)
        arm(monkeypatch, "before_mark=sleep:2.5")
        hit("before_mark")
        hit("before_mark")
        assert slept == [2.5, 2.5]

    def test_kill_is_sigkill_to_this_process(self) -> None:
        with child("after_record=kill@2", "after_record", "before_claim", "after_record") as dying:
            assert dying.wait(20) == -signal.SIGKILL

    def test_stop_is_sigstop_to_this_process(self) -> None:
        with child("after_record=stop", "after_record") as stopping:
            _, status = os.waitpid(stopping.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            stopping.send_signal(signal.SIGCONT)
            assert stopping.wait(20) == 0

    def test_a_wrong_setting_ends_the_process_at_its_start(self) -> None:
        with child("nonsense=kill") as refused:
            _, said = refused.communicate(timeout=20)
        assert refused.returncode == 1
        assert b"nonsense=kill" in said
