"""Conversion to Longformer: equal on short texts for every head, and a table of positions without a jump."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)
from typer.testing import CliRunner

import sightline as sl
from sightline.cli.app import app
from sightline.errors import OptionError, UnsupportedError, UsageError
from sightline.lab.convert import FADE, extend_positions, to_longformer
from tests.tiny_models import tiny_ids, tiny_module

HEADS = (
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
)


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta", "camembert"])
@pytest.mark.parametrize("auto", HEADS, ids=lambda auto: auto.__name__)
def test_the_longformer_equals_the_original_on_a_short_text(family, auto, tmp_path):
    labels = {"num_labels": 2} if auto is AutoModelForQuestionAnswering else {}
    conversion = sl.lab.convert(
        tiny_module(family, auto=auto, **labels), out=tmp_path / "long", positions=256, window=64
    )
    assert conversion.difference < 1e-5
    short, long = sl.load(tiny_module(family, auto=auto, **labels)), sl.load(tmp_path / "long", dtype="float64")
    ids = tiny_ids(family, 20)
    position = {} if auto in HEADS[::3] else {"position": 5}
    expected = short.trace(short.encode(ids=ids), **position)
    converted = long.trace(long.encode(ids=ids, global_tokens=[0]), **position)
    np.testing.assert_allclose(converted.logits, expected.logits, atol=1e-5)
    assert long.network.max_tokens == 256
    assert np.isfinite(long.trace(long.encode(ids=tiny_ids(family, 200)), **position).logits).all()


def test_global_projections_are_copies_of_the_local_ones():
    long = to_longformer(tiny_module("bert"), 256, 32)
    for layer in long.longformer.encoder.layer:
        attention = layer.attention.self
        for name in ("query", "key", "value"):
            torch.testing.assert_close(getattr(attention, f"{name}_global").weight, getattr(attention, name).weight)


def test_positions_continue_as_the_seam_says():
    learnt = torch.randn(100, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    tiled = extend_positions(learnt, 250, "tile")
    torch.testing.assert_close(tiled[100:200], learnt)
    smooth = extend_positions(learnt, 250, "smooth")
    assert smooth.shape == (250, 8)
    torch.testing.assert_close(smooth[:100], learnt)
    torch.testing.assert_close(smooth[100 + FADE : 100 + FADE + 10], learnt[2 * FADE : 2 * FADE + 10])
    assert not any(torch.allclose(row, learnt[0]) for row in smooth[1:])
    stretched = extend_positions(learnt, 199, "interpolate")
    torch.testing.assert_close(stretched[::2], learnt)


def test_the_smooth_seam_has_no_jump_where_neighbours_are_alike():
    angles = torch.linspace(0, 3, 200, dtype=torch.float64)[:, None] * torch.tensor([1.0, 0.7])
    learnt = torch.cat((angles.sin(), angles.cos()), dim=1)
    step = {seam: extend_positions(learnt, 600, seam).diff(dim=0).norm(dim=1).max() for seam in ("tile", "smooth")}
    assert step["smooth"] < step["tile"] / 4


def test_conversions_that_cannot_be_done_are_refused(tmp_path):
    for source, options, error, message in (
        (tiny_module("longformer"), {}, UsageError, "already a Longformer"),
        (tiny_module("gpt2"), {}, UnsupportedError, "cannot become a Longformer"),
        (tiny_module("bert"), {"positions": 64}, OptionError, "at least the 130"),
        (tiny_module("bert"), {"positions": 10**9}, OptionError, "out of range"),
        (tiny_module("bert"), {"window": 31}, OptionError, "even number"),
        (tiny_module("bert"), {"window": 0}, OptionError, "window must be a whole number of at least 1"),
        (tiny_module("bert"), {"seam": "sewn"}, OptionError, "seam='sewn' is not known"),
        (tiny_module("bert"), {"to": "bigbird"}, OptionError, "to='bigbird' is not known"),
        (tiny_module("bert"), {"attention": "entmax0.2"}, OptionError, "alpha >= 1"),
    ):
        with pytest.raises(error, match=message):
            sl.lab.convert(source, out=tmp_path / "new", **options)
    assert not list(tmp_path.iterdir())
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(UsageError, match="not an empty folder"):
        sl.lab.convert(tiny_module("bert"), out=tmp_path / "full")


def test_the_command_converts_a_folder(tmp_path):
    tiny_module("bert", dtype=torch.float32).save_pretrained(tmp_path / "short")
    arguments = [
        "convert",
        str(tmp_path / "short"),
        "--positions",
        "300",
        "--window",
        "16",
        "-o",
        str(tmp_path / "long"),
    ]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "LongformerForSequenceClassification, 300 positions, window 16, softmax attention" in result.stdout
    assert sl.load(tmp_path / "long").network.max_tokens == 300
