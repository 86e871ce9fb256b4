"""An option that would have no effect is refused at every command, even if its value is the default."""

from __future__ import annotations

import json

import pytest

SPLIT = [{"text": f"the old mill {i}", "label": i % 2, "split": "dev" if i < 4 else "train"} for i in range(12)]
OPTIONS = {
    "train: words of a checkpoint": (("--model", "MODEL", "--units", "words"), "units is for new models"),
    "train: vocabulary of a checkpoint": (
        ("--model", "MODEL", "--vocabulary", "20000"),
        "vocabulary is for new models",
    ),
    "train: share of given validation rows": (("--validation", "0.1"), "validation has no effect: 'rows.jsonl' has"),
    "train: label of hidden tokens": (
        ("--model", "MODEL", "--task", "masked_lm", "--label", "class"),
        "label='class' has no effect: the task masked_lm has no labels",
    ),
    "train: nothing to compute again": (("--gradient-checkpointing",), "a 'bilstm-attention' model cannot compute"),
    "convert: positions": (("--to", "same", "--positions", "4096"), "positions has no effect: only the attention"),
    "convert: window": (("--to", "same", "--window", "512"), "window has no effect"),
    "convert: seam": (("--to", "same", "--seam", "smooth"), "seam has no effect"),
    "adversary: strengths": (("--tests", "uniform,permuted", "--strengths", "0.1,1"), "strengths has no effect"),
    "study: two models of a role": (("attcat", "--model", "a", "--model", "b"), "Two models are given for the role"),
    "study: model of another study": (("attcat", "--mlm", "a"), "--mlm is for the studies 'alti' and 'flow'"),
    "study: two files of a data set": (
        ("flow", "--data", "sst2=rows.jsonl", "--data", "sst2=rows.jsonl"),
        "Two files are given for the data set 'sst2'",
    ),
    "serve: nobody asks for a token": (("--port", "0", "--no-token"), "--no-token has no effect"),
    "serve: both": (("--port", "0", "--no-token", "--token", "a-long-enough-token"), "contradict each other"),
    "serve: the built-in model is no pickle": (("--port", "0", "--allow-pickle"), "allow_pickle has no effect"),
    "methods: everything as JSON": (("--long", "--json"), "--long has no effect"),
    "metrics: one in full": (("aopc", "--long"), "--long has no effect"),
    "query: where of a query": ((".", "SELECT 1", "--where", "correct"), "--where goes with --by"),
    "query: intervals of a comparison": (
        (".", "--by", "word", "--where", "correct", "--against", "NOT correct", "--interval"),
        "--interval is left out with --against",
    ),
    "explain: the built-in model has weights": (("doc.txt", "--allow-random"), "allow_random has no effect"),
    "explain: words of a table of all": (("doc.txt", "--format", "csv", "--top", "3"), "--top is about lists of words"),
    "explain: nothing is drawn": (("doc.txt", "--method", "attcat", "--seed", "3"), "--seed has no effect"),
    "explain: no windows": (("doc.txt", "--truncate", "--windows", "max"), "--windows is about windows"),
    "inspect: no data set to cut": (("doc.txt", "--limit", "3"), "--limit needs a data set"),
    "evaluate: nothing is removed": (
        ("rows.jsonl", "--methods", "gradient", "--metrics", "entropy", "--no-reference-order"),
        "reference_order has no effect",
    ),
    "evaluate: no floor": (
        ("rows.jsonl", "--methods", "gradient", "--metrics", "entropy", "--random-orderings", "3"),
        "random_orderings has no effect",
    ),
    "evaluate: nothing published": (
        ("rows.jsonl", "--methods", "gradient", "--metrics", "entropy", "--compat", "attcat"),
        "compat has no effect",
    ),
    "explain: no check to limit": (("doc.txt", "--check-readings", "20"), "--check-readings belongs to the check"),
    "explain: no check to exchange in": (("doc.txt", "--artefacts"), "--artefacts belongs to the check"),
}
BEFORE = {"train": ("rows.jsonl", "--out", "new"), "convert": ("MODEL", "--out", "new"), "study": ("--out", "new")}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_without_effect_is_refused(name, sightline, good_model, tmp_path, request):
    command, (options, sentence) = name.partition(":")[0], OPTIONS[name]
    before = BEFORE.get(command, ())
    if command == "adversary":
        before = ("rows.jsonl", "--model", request.getfixturevalue("attentive_model"))
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in SPLIT))
    given = [good_model if argument == "MODEL" else argument for argument in (command, *before, *options)]
    done = sightline(*given)
    assert done.exit_code == 2, done.output
    assert sentence in done.stderr
    assert not (tmp_path / "new" / "config.json").exists()


@pytest.fixture(scope="module")
def attentive_model(tmp_path_factory):
    """A tiny model with a single attention."""
    import sightline as sl

    folder = tmp_path_factory.mktemp("attentive") / "model"
    sl.lab.train(SPLIT, "new-bilstm", out=folder, sizes={"hidden_size": 8, "embedding_size": 8}, max_steps=1)
    return folder


def test_a_token_in_the_environment_may_be_waived(sightline, monkeypatch):
    from sightline.cli.serve import _choose_token

    monkeypatch.setenv("SIGHTLINE_TOKEN", "a-long-enough-token")
    assert _choose_token("a-long-enough-token", True, "127.0.0.1", True) is None


def test_a_given_file_is_read_whatever_folder_is_given_beside_it(tmp_path):
    from sightline_studies import find_study
    from sightline_studies.data import DataSources

    folder = tmp_path / "data"
    folder.mkdir()
    for path in (folder / "sst2.jsonl", tmp_path / "mine.jsonl"):
        path.write_text(json.dumps(SPLIT[0]) + "\n")
    given = [f"sst2={tmp_path / 'mine.jsonl'}", str(folder)]
    for order in (given, given[::-1]):
        assert DataSources(find_study("flow"), order).paths["sst2"] == str(tmp_path / "mine.jsonl")
