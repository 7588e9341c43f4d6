import base64
import json
import os
import pickle
import pickletools
import zlib
from pathlib import Path

import pytest

from kappo.data import private_tests
from kappo.data.private_tests import decode
from kappo.errors import UserError
from tests.data.made import STDIN, encoded, packed


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("text", ["3\n", "ü €\u2028", "x" * 300, "y" * 100_000])
def test_every_protocol_of_a_pickled_text(protocol, text):
    tests = [{"input": text, "output": "1\n", "testtype": "stdin"}] * 2
    assert decode(packed(pickle.dumps(json.dumps(tests, ensure_ascii=False), protocol)), "row") == tests


def test_plain_json_is_taken_as_it_is():
    assert decode(json.dumps(STDIN), "row") == STDIN
    assert decode("[]", "row") == []


class Call:
    """Pickles as a call that would leave a file behind."""

    def __init__(self, function, *arguments):
        self.how = function, arguments

    def __reduce__(self):
        return self.how


class State:
    def __init__(self):
        self.x = "[]"


def hostile(tmp_path):
    mark = tmp_path / "was-here"
    shell = f"touch {mark}"
    return {
        "os.system": pickle.dumps(Call(os.system, shell)),
        "old os.system": f"cposix\nsystem\n(V{shell}\ntR.".encode(),
        "eval": pickle.dumps(Call(eval, f"open({str(mark)!r}, 'w')")),
        "exec": pickle.dumps(Call(exec, f"open({str(mark)!r}, 'w')")),
        "nested": pickle.dumps({"a": [Call(os.system, shell)]}),
        "a pickle that loads a pickle": pickle.dumps(Call(pickle.loads, pickle.dumps(Call(os.system, shell)))),
        "a call, then a text": b"cposix\nsystem\n(V" + shell.encode() + b"\ntR0V[]\n.",
        "an object": pickle.dumps(State()),
        "a builtin": pickle.dumps(len),
        "an extension": b"\x80\x02\x82\x01.",
        "an outside object": b"Pabc\n.",
        "an instance": b"(iposix\nsystem\n.",
        "bytes": pickle.dumps(b"[]"),
        "a list": pickle.dumps(STDIN),
        "a tuple": pickle.dumps(("[]",)),
        "a number": pickle.dumps(5),
        "none": pickle.dumps(None),
        "a string of old": b"S'[]'\n.",
    }, mark


NAMES = sorted(hostile(Path("nowhere"))[0])


@pytest.mark.parametrize("name", NAMES)
def test_no_other_pickle_takes_effect(tmp_path, name):
    pickles, mark = hostile(tmp_path)
    with pytest.raises(UserError, match=r"file, row 7: private_test_cases are .*pickle"):
        decode(packed(pickles[name]), "file, row 7")
    assert not mark.exists()


def test_the_second_lock_holds_without_the_first(tmp_path, monkeypatch):
    """Even if every opcode were let through, no name is looked up."""
    every = {op.name for op in pickletools.opcodes}
    monkeypatch.setattr(private_tests, "HARMLESS", every)
    pickles, mark = hostile(tmp_path)
    for name in set(NAMES) - {"a string of old"}:
        with pytest.raises(UserError):
            decode(packed(pickles[name]), "row")
        assert not mark.exists(), name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not base64!", "neither JSON nor base64"),
        (encoded(STDIN)[:-8] + "\n" + encoded(STDIN)[-8:], "neither JSON nor base64"),
        (encoded(STDIN)[:-1], "neither JSON nor base64"),
        (base64.b64encode(b"plain").decode(), "not zlib data"),
        (base64.b64encode(zlib.compress(pickle.dumps("[]"))[:-3]).decode(), "cut off or padded"),
        (base64.b64encode(zlib.compress(pickle.dumps("[]")) + b"x").decode(), "cut off or padded"),
        (packed(b""), "no readable pickle"),
        (packed(pickle.dumps("[]")[:-1]), "no readable pickle"),
        (packed(pickle.dumps("no json")), "no list of tests"),
        (encoded({"input": "1"}), "no list of tests"),
        (encoded(["1"]), "no list of tests"),
        ("5", "no list of tests"),
        (packed(pickle.dumps("[" * 100_000)), "no list of tests"),
    ],
)
def test_broken_tests_name_the_row(text, message):
    with pytest.raises(UserError, match=rf"row 3: private_test_cases .*{message}"):
        decode(text, "row 3")


def test_a_bomb_is_unpacked_no_further_than_the_limit(monkeypatch):
    """200 MB of one letter in 200 kB; a thousandth of it is asked for."""
    bomb = packed(pickle.dumps("x" * 200_000_000))
    monkeypatch.setattr(private_tests, "MAX_BYTES", 200_000)
    asked = []

    class Watched:
        def __init__(self):
            self.stream = zlib.decompressobj()

        def decompress(self, data, limit):
            found = self.stream.decompress(data, limit)
            asked.append(len(found))
            return found

        def __getattr__(self, name):
            return getattr(self.stream, name)

    watched = type("zlib", (), {"decompressobj": Watched, "error": zlib.error})
    monkeypatch.setattr(private_tests, "zlib", watched)
    with pytest.raises(UserError, match="unpack to more than 200000 bytes"):
        decode(bomb, "row")
    assert asked == [200_000]


def test_tests_of_exactly_the_limit_are_taken(monkeypatch):
    pickled = pickle.dumps(json.dumps(STDIN))
    monkeypatch.setattr(private_tests, "MAX_BYTES", len(pickled))
    assert decode(packed(pickled), "row") == STDIN
    monkeypatch.setattr(private_tests, "MAX_BYTES", len(pickled) - 1)
    with pytest.raises(UserError, match="unpack to more than"):
        decode(packed(pickled), "row")
