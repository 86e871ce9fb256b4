"""Every study runs on generated data, is judged, and makes the same tables from what it stored."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
import torch

from sightline.errors import OptionError, UsageError
from sightline_studies import STUDIES, Outcome, estimate, find_study, run_study
from sightline_studies import workbench as workbench_module
from sightline_studies.view import write_study
from tests.tiny_models import tiny_module
from tests.tiny_tokenizers import wordpiece

pytestmark = pytest.mark.slow
NAMES = tuple(STUDIES)


def contents(folder):
    """Hashes of everything that a study writes for readers."""
    paths = [
        folder / "index.html",
        folder / "study.md",
        *(folder / "tables").iterdir(),
        *(folder / "figures").iterdir(),
    ]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


@pytest.fixture(scope="module", params=NAMES)
def finished(request, tmp_path_factory):
    """A study that was run at the smallest size, and its folder."""
    folder = tmp_path_factory.mktemp("studies") / request.param
    result = run_study(request.param, folder, size="tiny")
    write_study(result, folder)
    return result, folder


def test_every_claim_of_a_study_is_judged(finished):
    result, _ = finished
    assert [finding.claim for finding in result.outcome.findings] == list(result.study.claims)
    for finding in result.outcome.findings:
        assert finding.cases or finding.evidence
        assert finding.deciding or finding.verdict == "cannot tell"


def test_what_differs_at_the_size_of_the_paper_has_a_reason(finished):
    result, _ = finished
    for setting in result.outcome.settings:
        assert (setting.at_paper_size == "the same") == (not setting.why_at_paper_size), setting.subject


def test_the_same_call_recomputes_nothing_and_writes_the_same_bytes(finished, tmp_path, monkeypatch):
    result, folder = finished
    before = contents(folder)
    stored = {path.name: path.stat().st_mtime_ns for path in (folder / "results").iterdir()}

    def refuse(*arguments, **options):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(workbench_module, "load", refuse)
    monkeypatch.setattr(workbench_module.Subject, "model", property(refuse))
    write_study(run_study(result.study.name, folder, size="tiny"), folder)
    assert contents(folder) == before
    assert {path.name: path.stat().st_mtime_ns for path in (folder / "results").iterdir()} == stored


def test_the_page_shows_every_claim_table_and_figure(finished):
    result, folder = finished
    page = (folder / "index.html").read_text()
    text = (folder / "study.md").read_text()
    for finding in result.outcome.findings:
        assert finding.claim.name in page
        assert finding.claim.name in text
    for table in result.outcome.tables:
        assert len(table.frame)
        for ending in ("csv", "tex", "md"):
            assert (folder / "tables" / f"{table.name}.{ending}").stat().st_size
    for figure in result.outcome.figures:
        assert f'src="figures/{figure.name}.svg"' in page
        assert (folder / "figures" / f"{figure.name}.png").stat().st_size > 1000
    assert "script" not in re.sub(r"default-src[^>]*", "", page)


def test_no_path_of_this_machine_is_on_the_page(finished):
    _, folder = finished
    for name in ("index.html", "study.md"):
        assert str(folder.parent) not in (folder / name).read_text()


@pytest.mark.parametrize("name", NAMES)
def test_a_study_declares_what_it_reads(name):
    study = find_study(name)
    assert set(study.sizes) == {"tiny", "small", "paper"}
    assert set(study.paper_size.data) | set(study.paper_size.not_on_hub) <= set(study.data)
    assert set(study.paper_size.models) <= set(study.models)
    assert len({claim.name for claim in study.claims}) == len(study.claims)
    assert "GB of disk" in estimate(study)
    assert all(hub.address.startswith("hf://") for hub in study.paper_size.data.values())


@pytest.mark.parametrize("name", NAMES)
def test_the_size_of_the_paper_stops_with_a_sentence_where_the_hub_is_out_of_reach(name, tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UsageError, match=r"reads hf://\S+ from the hub, and the hub is switched off"):
        run_study(name, tmp_path / "out", size="paper")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", NAMES)
def test_the_size_of_the_paper_loads_data_and_models_that_are_given_as_files(name, tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    study = find_study(name)
    folder = tmp_path / "model"
    tiny_module(dtype=torch.float32).save_pretrained(folder)
    wordpiece().save_pretrained(folder)
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps({"text": f"the river {n}", "label": n % 2}) + "\n" for n in range(8)))
    read = {}

    def load_everything(bench):
        for role in study.paper_size.models:
            read[f"model {role}"] = bench.given_model(role).model.labels
        for data in study.data:
            read[data] = len(bench.read(data, list, documents=5).test)
        return Outcome([], [], [], [])

    monkeypatch.setitem(STUDIES, name, dataclasses.replace(study, run=load_everything))
    models = dict.fromkeys(study.paper_size.models, folder)
    run_study(name, tmp_path / "out", size="paper", data=[f"{data}={file}" for data in study.data], models=models)
    assert {read[data] for data in study.data} == {5}
    assert all(len(read[f"model {role}"]) == 3 for role in models)


def test_data_that_the_hub_does_not_hold_are_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr("sightline_studies.runner.why_unreachable", lambda: None)
    with pytest.raises(UsageError, match="needs the data set 'sva'.*Give it with --data sva=FILE"):
        run_study("flow", tmp_path / "out", size="paper")


def test_an_unknown_study_is_named_with_a_suggestion():
    with pytest.raises(OptionError, match="There is no study 'atcat'. Did you mean 'attcat'"):
        find_study("atcat")


@pytest.mark.parametrize("finished", ["longformer"], indirect=True)  # all studies share the code that resumes
def test_a_study_that_was_killed_resumes_and_ends_with_the_same_bytes(finished, tmp_path):
    result, whole = finished
    killed, name = tmp_path / "killed", result.study.name
    half = len(list((whole / "results").iterdir())) // 2
    code = f"import sys; from sightline_studies import run_study; run_study('{name}', sys.argv[1], size='tiny')"
    process = subprocess.Popen([sys.executable, "-c", code, str(killed)], env={**os.environ, "OMP_NUM_THREADS": "1"})
    while process.poll() is None and len(list(killed.glob("results/*.json"))) < half:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    stored = {path.name: path.read_bytes() for path in (killed / "results").glob("*.json")}
    assert len(stored) >= half
    write_study(run_study(name, killed, size="tiny"), killed)
    assert {name: (killed / "results" / name).read_bytes() for name in stored} == stored
    for part in ("results", "tables", "figures"):  # the page itself holds the date
        for path in (whole / part).iterdir():
            assert path.name.startswith("provenance") or (killed / part / path.name).read_bytes() == path.read_bytes()
