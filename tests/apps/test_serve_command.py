"""`explearn serve`: from a bundle to answers and an orderly end; mistakes are one sentence."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from itertools import product
from pathlib import Path

import httpx2
import pytest
import tiny
from cli_cases import run
from listed import fit
from saying import command_complaint

import explearn
from explearn.methods.marker.explainer import Marker


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """An Marker with its classifier."""
    place = tmp_path_factory.mktemp("served")
    of = tiny.classifier("bert", 2)
    folder = tiny.save(place / "classifier", "bert", 2)
    pairs = [(f"{one} the {other} sleeps", of.labels[0]) for one, other in product(("fox", "dog"), ("tide", "castle"))]
    gold = [(True, False, False, False)] * len(pairs)
    fit(Marker(epochs=2, protocol="in_domain"), of, pairs, gold).save_pretrained(place / "marker")
    return explearn.export(place / "bundle", explainer=place / "marker", classifier=str(folder), with_classifier=True)


def threads_of(process):
    return len(list(Path(f"/proc/{process.pid}/task").iterdir()))


def post(address, text, actual):
    wanted = {"texts": [text] * 8, "methods": ["marker_in_domain", "occlusion"], "probabilities": True}
    actual.append(httpx2.post(f"{address}/explain", json=wanted, timeout=120))


@pytest.fixture
def serve(monkeypatch):
    """Run the command up to the moment when it would serve."""
    monkeypatch.setattr("explearn_apps.serve.server.serve", lambda *_: None)

    def started(*arguments):
        result = run("serve", "--port", "0", "--device", "cpu", *arguments)
        assert result.exit_code == 0, result.stderr
        return result

    return started


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")
def test_from_a_bundle_to_an_orderly_end(bundle):
    command = [sys.executable, "-m", "explearn.cli.app", "serve", bundle, "--method", "occlusion", "--port", "0"]
    environment = {**os.environ, "EXPLEARN_DEVICE": "cpu"}
    with subprocess.Popen(
        [*map(str, command), "--timeout", "120"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        try:
            told = re.search(r"with marker_in_domain, occlusion: (http://127\.0\.0\.1:\d+) ", line)
            assert told, line
            address = told[1]
            answers = []
            post(address, "the fox", answers)
            before = threads_of(process)
            together = [threading.Thread(target=post, args=(address, "secret words", answers)) for _ in range(10)]
            for thread in together:
                thread.start()
            for thread in together:
                thread.join(120)
            assert threads_of(process) == before
            # What is in work when the end is asked for is answered.
            last = threading.Thread(target=post, args=(address, "the lazy dog " * 3, answers))
            last.start()
            deadline = time.monotonic() + 10
            while "in_work 2.0" not in httpx2.get(f"{address}/metrics").text and time.monotonic() < deadline:
                if not last.is_alive():  # it was answered before anybody looked
                    break
        finally:
            process.send_signal(signal.SIGTERM)
        last.join(120)
        assert process.wait(120) == 0
        said = process.stdout.read() + process.stderr.read()
    assert [answer.status_code for answer in answers] == [200] * 12
    assert "secret" not in said and "Traceback" not in said


def test_the_name_that_a_bundle_gives_its_classifier_cannot_steer_the_terminal(tiny_folder, tmp_path, serve):
    folder = tmp_path / "bundle"
    explearn.export(folder, method="occlusion", classifier=str(tiny_folder), with_classifier=True)
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    manifest["classifier"]["name"] = "mine\x1b[2J\nanother line"
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    result = serve(folder)
    assert result.stdout.startswith("mine\\x1b[2J\\x0aanother line with occlusion: http://")
    assert len(result.stdout.splitlines()) == 1


class TestMistakes:
    def test_a_port_in_use(self, bundle):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            said = command_complaint("serve", str(bundle), "--port", port)
        assert said.startswith(f"error: --host 127.0.0.1, --port {port}: cannot be used (Address already in use")

    def test_a_missing_extra(self, bundle, monkeypatch):
        monkeypatch.setitem(sys.modules, "fastapi", None)
        said = command_complaint("serve", str(bundle))
        assert said.startswith("error: explearn serve needs the package ") and "fastapi" in said
        assert "pip install 'explearn[serve]'" in said

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("nowhere",), ("nowhere",)),
            (("--method", "occlusion"), ("--classifier: got none",)),
            (("BUNDLE", "--method", "oclusion"), ("did you mean occlusion?",)),
            (("BUNDLE", "--method", "lime", "--method", "lime"), ("got 'lime' twice",)),
            (("nowhere", "--timeout", "inf"), ("'--timeout'",)),
            (("BUNDLE", "--host", "host.invalid"), ("--host host.invalid", "cannot be used")),
            (("BUNDLE", "--host", ""), ("--host: got an empty address",)),
        ],
    )
    def test_others(self, bundle, tiny_folder, arguments, words):
        places = {"BUNDLE": str(bundle), "OTHER": str(tiny_folder)}
        given = [places.get(argument, argument) for argument in arguments]
        command_complaint("serve", "--port", "0", "--device", "cpu", *given, words=words)


class TestWhoCanReachIt:
    def test_another_address_is_warned_of(self, tiny_folder, serve):
        result = serve("--classifier", tiny_folder, "--host", "0.0.0.0")
        assert "no authentication" in result.stderr
        assert "attn_lrp, attcat, gae, occlusion: http://0.0.0.0:" in result.stdout
        assert "warning" not in serve("--classifier", tiny_folder, "--method", "gae").stderr

    def test_methods_that_do_not_fit_are_left_out_and_said(self, tmp_path, serve):
        result = serve("--classifier", tiny.save(tmp_path / "longformer", "longformer", 2))
        assert "left out: gae (" in result.stderr and "occlusion: http" in result.stdout

    def test_a_comparison_of_another_classifier_or_none(self, bundle, tmp_path):
        manifest = tmp_path / "compare.json"
        other = {"verdict": "Use lime.", "parameters": {"classifier": "0"}}
        for content, said in ((other, "the comparison is not of "), ([], "has no verdict; expected the manifest")):
            manifest.write_text(json.dumps(content), encoding="utf-8")
            arguments = ("serve", str(bundle), "--port", "0", "--comparison", str(manifest))
            command_complaint(*arguments, words=(f"{manifest}: {said}",))
