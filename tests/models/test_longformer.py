"""The banded encoder against the library's own, and its records against attention written out densely."""

from __future__ import annotations

import copy
import math
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from sightline.api.load import load
from sightline.errors import InputError, ModelError, UnsupportedError
from sightline.models.longformer import layer as longformer_layer
from sightline.models.longformer.encoder import (
    BandedEncoder,
    difference_from_library,
    observe_library,
    one_row_mask,
    use_banded,
    use_library,
)
from sightline.models.recording import Packed, Padded, Recorder, recording
from tests.tiny_models import VOCABULARY, tiny_ids, tiny_model, tiny_module

WINDOWS = [8, 4, 16]
"""Attention windows of the three layers: 4, 2 and 8 tokens to each side."""


class DoubleSoftmax(TorchFunctionMode):
    """The library computes softmax in single precision whatever the model's; here it may use the model's."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if getattr(func, "__name__", "") == "softmax" and kwargs.get("dtype") is torch.float32:
            kwargs["dtype"] = args[0].dtype
        return func(*args, **kwargs)


@dataclass(frozen=True)
class Texts:
    """A batch: tokens, global tokens and masked tokens of every document."""

    lengths: tuple[int, ...]
    global_tokens: tuple[tuple[int, ...], ...]
    masked: tuple[tuple[int, ...], ...] = ()

    def inputs(self) -> dict[str, torch.Tensor]:
        shape = (len(self.lengths), max(self.lengths))
        attention, global_mask = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
        ids = torch.randint(3, VOCABULARY, shape, generator=torch.Generator().manual_seed(1))
        for row, length in enumerate(self.lengths):
            attention[row, :length] = 1
            if self.masked:
                attention[row, list(self.masked[row])] = 0
            global_mask[row, list(self.global_tokens[row])] = 1
        positions = torch.arange(2, 2 + shape[1]).expand(shape)
        return {
            "input_ids": ids,
            "attention_mask": attention,
            "global_attention_mask": global_mask,
            "position_ids": positions,
        }

    def document(self, row: int) -> Texts:
        masked = (self.masked[row],) if self.masked else ()
        return Texts((self.lengths[row],), (self.global_tokens[row],), masked)


BATCHES = {
    "one token": Texts((1,), ((0,),)),
    "one token, no global": Texts((1,), ((),)),
    "shorter than the window": Texts((5,), ((0,),)),
    "the length of the window": Texts((16,), ((0,),)),
    "not a multiple of the window": Texts((29,), ((0,),)),
    "no global token": Texts((29,), ((),)),
    "first token local, others global": Texts((29,), ((3, 20),)),
    "every token global": Texts((11,), (tuple(range(11)),)),
    "masked tokens inside": Texts((29,), ((0, 9),), ((4, 5, 17),)),
    "first token masked": Texts((29,), ((9,),), ((0, 1, 12),)),
    "documents of different lengths and global tokens": Texts((29, 3, 16, 1), ((0,), (0, 2), (), (0,))),
    "documents of one length": Texts((13, 13), ((0,), (5, 6)), ((), (2,))),
}
batches = pytest.mark.parametrize("texts", BATCHES.values(), ids=BATCHES.keys())


def classifier(dtype=torch.float64, auto=AutoModelForSequenceClassification, **facts):
    return tiny_module("longformer", auto=auto, dtype=dtype, **{"attention_window": list(WINDOWS), **facts})


def logits_and_gradients(model, texts):
    """Logits, then the gradient of a mixture of them for the word embeddings and for every parameter."""
    model.zero_grad()
    inputs = texts.inputs()
    embeddings = model.get_input_embeddings()(inputs.pop("input_ids")).detach().requires_grad_()
    with DoubleSoftmax():
        logits = model(inputs_embeds=embeddings, **inputs).logits
    (logits * torch.linspace(-1, 2, logits.numel(), dtype=logits.dtype).view_as(logits)).sum().backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    return logits.detach(), embeddings.grad, gradients


def observed(model, texts, *, library=False, **settings):
    """Logits (on the autograd path) and the recorder of one pass."""
    inputs = texts.inputs()
    embeddings = model.get_input_embeddings()(inputs.pop("input_ids")).detach().requires_grad_()
    with (
        recording(Recorder(embeddings=embeddings, **settings)) as recorder,
        observe_library(model) if library else nullcontext(),
        DoubleSoftmax(),
    ):
        logits = model(inputs_embeds=embeddings, **inputs).logits
    return logits, recorder


def assert_equal(actual, expected, tolerance):
    """Equal relative to the largest value."""
    actual, expected = actual.detach(), expected.detach()
    scale = max(float(expected.abs().max()), 1e-30)
    assert float((actual - expected).abs().max()) <= tolerance * scale


class TestEqualToTheLibrary:
    @batches
    @pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
    def test_logits_input_gradients_and_parameter_gradients(self, texts, dtype, tolerance):
        model = classifier(dtype)
        logits, gradient, parameters = logits_and_gradients(model, texts)
        use_banded(model)
        ours, our_gradient, our_parameters = logits_and_gradients(model, texts)
        assert_equal(ours, logits, tolerance)
        assert_equal(our_gradient, gradient, tolerance)
        largest = max(float(g.abs().max()) for g in parameters.values())
        for name, theirs in parameters.items():
            # A part of the last layer that the readout never sees has no gradient at all instead of zeros.
            mine = our_parameters.get(name, torch.zeros_like(theirs))
            assert float((mine - theirs).abs().max()) <= tolerance * largest, name

    @pytest.mark.parametrize(
        "auto",
        [
            AutoModelForSequenceClassification,
            AutoModelForMaskedLM,
            AutoModelForTokenClassification,
            AutoModelForQuestionAnswering,
            AutoModelForMultipleChoice,
            AutoModel,
        ],
        ids=lambda auto: auto.__name__,
    )
    def test_every_architecture(self, auto):
        texts = Texts((29, 12), ((0,), (0, 3)))
        model = classifier(auto=auto, num_labels=2)
        inputs = texts.inputs()
        if auto is AutoModelForMultipleChoice:
            inputs = {name: tensor[None] for name, tensor in inputs.items()}
        with torch.no_grad(), DoubleSoftmax():
            theirs = model(**inputs)
            use_banded(model)
            ours = model(**inputs)
        for name, expected in theirs.items():
            seen = inputs["attention_mask"].bool()
            by_token = expected.shape[:2] == seen.shape and auto is not AutoModelForMultipleChoice
            assert_equal(*((ours[name][seen], expected[seen]) if by_token else (ours[name], expected)), 1e-12)

    @batches
    def test_attentions_and_hidden_states_when_requested(self, texts):
        model = classifier()
        inputs = texts.inputs()
        with torch.no_grad(), DoubleSoftmax():
            theirs = model(**inputs, output_attentions=True, output_hidden_states=True)
            use_banded(model)
            ours = model(**inputs, output_attentions=True, output_hidden_states=True)
        assert (ours.global_attentions is None) == (theirs.global_attentions is None)
        for layer in range(3):
            assert_equal(ours.attentions[layer], theirs.attentions[layer], 1e-12)
            if theirs.global_attentions is not None:
                for row, tokens in enumerate(texts.global_tokens):
                    actual, expected = (
                        out.global_attentions[layer][row, :, :, : len(tokens)] for out in (ours, theirs)
                    )
                    assert actual.shape == expected.shape
                    if len(tokens):
                        assert_equal(actual, expected, 1e-12)
        for layer, (actual, expected) in enumerate(zip(ours.hidden_states, theirs.hidden_states, strict=True)):
            for row, length in enumerate(texts.lengths):
                assert_equal(actual[row, :length], expected[row, :length], 1e-12), layer

    def test_tuple_output(self):
        model, texts = classifier(), Texts((9,), ((0,),))
        inputs = texts.inputs()
        with torch.no_grad(), DoubleSoftmax():
            theirs = model.base_model(**inputs, return_dict=False)[0]
            use_banded(model).readout_rows = "all"
            ours = model.base_model(**inputs, return_dict=False)[0]
        assert_equal(ours, theirs, 1e-12)

    @pytest.mark.parametrize("window", [4, 64])
    def test_other_windows(self, window):
        model, texts = classifier(attention_window=window), Texts((70, 41), ((0, 66), (1,)))
        expected = logits_and_gradients(model, texts)
        use_banded(model)
        for ours, theirs in zip(logits_and_gradients(model, texts)[:2], expected[:2], strict=True):
            assert_equal(ours, theirs, 1e-12)


class TestBatches:
    @pytest.mark.parametrize("plain", [False, True])
    def test_a_document_in_a_batch_is_the_document_alone(self, plain):
        texts = Texts((29, 3, 16, 1), ((0,), (0, 2), (), (0,)), ((7,), (), (), ()))
        model = classifier()
        use_banded(model).plain = plain
        together, embeddings_gradient, _ = logits_and_gradients(model, texts)
        for row in range(4):
            inputs = texts.document(row).inputs()
            inputs["input_ids"] = texts.inputs()["input_ids"][row : row + 1, : texts.lengths[row]]
            with torch.no_grad():
                alone = model(**inputs).logits
            assert_equal(together[row : row + 1], alone, 1e-12)
        padding = texts.inputs()["attention_mask"] == 0
        assert float(embeddings_gradient[padding].abs().max()) == 0

    def test_rows_after_the_end_of_a_document_are_zero(self):
        model, texts = classifier(auto=AutoModel), Texts((29, 12), ((0,), (0,)))
        use_banded(model)
        with torch.no_grad():
            last = model(**texts.inputs()).last_hidden_state
        assert last.shape[1] == 29
        assert float(last[1, 12:].abs().max()) == 0
        assert float(last[1, :12].abs().min(dim=0).values.max()) > 0


def dense_pass(model, texts):
    """The logits of one document with every A (H, n, n) in the open, by loops over pairs and the library's linear maps.

    Returns logits, and per layer: A as a tensor whose gradient autograd knows, and which pairs are allowed.
    """
    inputs = texts.inputs()
    (n,), (global_tokens,) = texts.lengths, texts.global_tokens
    masked = texts.masked[0] if texts.masked else ()
    base = model.base_model
    x = base.embeddings(input_ids=inputs["input_ids"], position_ids=inputs["position_ids"])[0]
    layers = []
    for layer in base.encoder.layer:
        module = layer.attention.self
        heads, width, window = module.num_heads, module.head_dim, module.one_sided_attn_window_size
        q, k, v, q_global, k_global, v_global = (
            getattr(module, name)(x).view(n, heads, width).transpose(0, 1)
            for name in ("query", "key", "value", "query_global", "key_global", "value_global")
        )
        allowed = torch.zeros(n, n, dtype=torch.bool)
        for i in range(n):
            for j in range(n):
                near = abs(i - j) <= window
                allowed[i, j] = (
                    i not in masked and j not in masked and (near or i in global_tokens or j in global_tokens)
                )
        is_global = torch.zeros(n, 1, dtype=torch.bool)
        is_global[list(global_tokens)] = True
        scores = torch.where(is_global, q_global @ k_global.mT, q @ k.mT) / math.sqrt(width)
        exponentials = torch.where(allowed, torch.exp(scores), 0.0)
        weights = exponentials / exponentials.sum(-1, keepdim=True).clamp(min=1e-300)
        weights.retain_grad()
        output = torch.where(is_global, weights @ v_global, weights @ v).transpose(0, 1).reshape(n, -1)
        x = layer.attention.output(output, x)
        x = layer.output(layer.intermediate(x), x)
        layers.append((weights, allowed))
    return model.classifier(x[None]), layers


OBSERVED = [BATCHES[name] for name in ("one token", "first token local, others global", "masked tokens inside")]


class TestRecords:
    @pytest.mark.parametrize("texts", OBSERVED, ids=str)
    @pytest.mark.parametrize("way", ["banded", "plain", "readout only", "library"])
    def test_weights_and_their_gradients_equal_those_of_a_dense_pass(self, texts, way):
        model = classifier()
        expected_logits, layers = dense_pass(model, texts)
        expected_logits[0, 1].backward()
        if way != "library":
            use_banded(model).plain = way == "plain"
        logits, recorder = observed(model, texts, library=way == "library", readout_only=way == "readout only")
        assert_equal(logits, expected_logits, 1e-12)
        gradients = torch.autograd.grad(logits[0, 1], [record.output for record in recorder.layers])
        for record, gradient, (weights, allowed) in zip(recorder.layers, gradients, layers, strict=True):
            np.testing.assert_allclose(record.weights(0).dense(), weights.detach().numpy(), rtol=0, atol=1e-13)
            actual = record.gradient(0, record.layout.cut(gradient, 0)).dense()
            expected = (weights.grad * allowed).numpy()
            np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12 * np.abs(expected).max())

    def test_a_window_of_two_works_though_the_library_fails_on_it(self):
        texts, model = Texts((13,), ((5,),)), classifier(attention_window=2)
        with pytest.raises(RuntimeError):
            model(**texts.inputs())
        expected, layers = dense_pass(model, texts)
        use_banded(model)
        logits, recorder = observed(model, texts)
        assert_equal(logits, expected, 1e-12)
        for record, (weights, _) in zip(recorder.layers, layers, strict=True):
            np.testing.assert_allclose(record.weights(0).dense(), weights.detach().numpy(), rtol=0, atol=1e-13)

    @pytest.mark.parametrize("library", [False, True])
    def test_every_document_of_a_batch_has_its_own_records(self, library):
        texts = Texts((29, 3, 16), ((0,), (0, 2), ()), ((7,), (), ()))
        model = classifier()
        if not library:
            use_banded(model)
        logits, recorder = observed(model, texts, library=library)
        assert isinstance(recorder.layout, Padded if library else Packed)
        assert recorder.layout.lengths == texts.lengths
        gradients = torch.autograd.grad(logits[:, 0].sum(), [record.output for record in recorder.layers])
        for row in range(3):
            alone = texts.document(row)
            ids = texts.inputs()["input_ids"][row : row + 1, : texts.lengths[row]]
            with pytest.MonkeyPatch.context() as patch:
                inputs = {**alone.inputs(), "input_ids": ids}
                patch.setattr(Texts, "inputs", lambda _, inputs=inputs: dict(inputs))
                expected_logits, layers = dense_pass(model, alone)
            expected_logits[0, 0].backward()
            for record, gradient, (weights, allowed) in zip(recorder.layers, gradients, layers, strict=True):
                np.testing.assert_allclose(record.weights(row).dense(), weights.detach().numpy(), rtol=0, atol=1e-13)
                actual = record.gradient(row, record.layout.cut(gradient, row)).dense()
                expected = (weights.grad * allowed).numpy()
                np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12 * np.abs(expected).max())

    @pytest.mark.parametrize("readout_only", [False, True])
    def test_values_are_the_ordinary_and_the_global_projection_of_the_layer_input(self, readout_only):
        texts = Texts((29, 5), ((0,), (1,)))
        model = classifier()
        use_banded(model)
        _, recorder = observed(model, texts, readout_only=readout_only)
        for layer, x, record in zip(model.base_model.encoder.layer, recorder.hidden, recorder.layers, strict=False):
            for row in range(2):
                rows = recorder.layout.cut(x, row)
                for values, name in ((record.values(row), "value"), (record.global_values(row), "value_global")):
                    expected = getattr(layer.attention.self, name)(rows).view(len(rows), 4, 8)
                    assert not values.requires_grad
                    assert_equal(values, expected, 1e-13)

    @pytest.mark.parametrize("library", [False, True])
    def test_hidden_states_are_the_librarys_and_on_the_autograd_path(self, library):
        texts = Texts((29, 12), ((0,), (0,)))
        model = classifier()
        with torch.no_grad(), DoubleSoftmax():
            expected = model(**texts.inputs(), output_hidden_states=True).hidden_states
        if not library:
            use_banded(model)
        logits, recorder = observed(model, texts, library=library)
        assert len(recorder.hidden) == 4
        gradients = torch.autograd.grad(logits.sum(), recorder.hidden)
        for layer, (x, gradient) in enumerate(zip(recorder.hidden, gradients, strict=True)):
            for row, length in enumerate(texts.lengths):
                assert_equal(recorder.layout.cut(x, row), expected[layer][row, :length], 1e-12)
            assert float(gradient.abs().max()) > 0

    def test_no_attention_is_kept_when_not_requested(self):
        model = classifier()
        use_banded(model)
        _, recorder = observed(model, Texts((9,), ((0,),)), attention=False)
        assert recorder.layers == []
        assert len(recorder.hidden) == 4

    def test_parts_of_a_plain_pass_put_together_are_the_weights_and_their_gradients(self):
        texts = Texts((29, 6), ((0, 9), ()), ((4,), ()))
        model = classifier()
        use_banded(model).plain = True
        logits, recorder = observed(model, texts)
        for record in recorder.layers:
            for row in range(2):
                parts = record.probabilities[row]
                np.testing.assert_allclose(
                    record.assemble(row, parts).dense(), record.weights(row).dense(), rtol=0, atol=1e-14
                )
                gradients = torch.autograd.grad(logits[row, 0], [*parts, record.output], retain_graph=True)
                expected = record.gradient(row, record.layout.cut(gradients[-1], row)).dense()
                actual = record.assemble(row, gradients[:-1]).dense()
                np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)


class TestReadoutRows:
    @batches
    def test_last_layer_for_the_first_row_alone_changes_nothing_that_the_classifier_reads(self, texts):
        model = classifier()
        use_banded(model)
        full, everything = observed(model, texts)
        partial, first = observed(model, texts, readout_only=True)
        assert (len(everything.hidden), len(first.hidden)) == (4, 3)
        assert_equal(partial, full, 1e-12)
        assert_equal(
            *(
                torch.autograd.grad(logits.sum(), recorder.embeddings, retain_graph=True)[0]
                for logits, recorder in ((partial, first), (full, everything))
            ),
            1e-12,
        )
        gradients = [
            torch.autograd.grad(logits.sum(), recorder.layers[-1].output)[0]
            for logits, recorder in ((partial, first), (full, everything))
        ]
        for row in range(len(texts.lengths)):
            a, b = (recorder.layers[-1].weights(row).dense() for recorder in (first, everything))
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-13)
            a, b = (
                recorder.layers[-1].gradient(row, recorder.layers[-1].layout.cut(gradient, row)).dense()
                for recorder, gradient in zip((first, everything), gradients, strict=True)
            )
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)

    def test_without_recorder_only_classifiers_skip_rows(self):
        texts = Texts((29,), ((0,),))
        for auto, rows in ((AutoModelForSequenceClassification, "first"), (AutoModelForTokenClassification, "all")):
            model = classifier(auto=auto)
            assert use_banded(model).readout_rows == rows
            with torch.no_grad():
                last = model.base_model(**texts.inputs()).last_hidden_state
            assert last.shape == (1, 29, 32)
            assert (float(last[:, 1:].abs().max()) == 0) == (rows == "first")


class Calls(TorchFunctionMode):
    """Names of the functions called."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


class TestPlain:
    @batches
    def test_same_logits_and_gradients_by_ordinary_operations(self, texts):
        model = classifier()
        encoder = use_banded(model)
        expected = logits_and_gradients(model, texts)
        encoder.plain = True
        for ours, fast in zip(logits_and_gradients(model, texts)[:2], expected[:2], strict=True):
            assert_equal(ours, fast, 1e-12)

    def test_every_product_and_softmax_is_seen_by_a_function_mode(self):
        model, texts = classifier(), Texts((29,), ((0,),))
        use_banded(model).plain = True
        with Calls() as calls:
            model(**texts.inputs())
        # Three layers of one block: window and global rows each have scores, a softmax and a sum of values; the scores
        # of window rows with global keys are a product of their own.
        assert calls.names.count("matmul") == 3 * 5
        assert calls.names.count("softmax") == 3 * 2
        assert "bmm" not in calls.names


class TestSwitch:
    def test_state_dict_has_the_same_keys_and_fits_both_ways(self):
        model = classifier()
        keys = list(model.state_dict())
        names = [name for name, _ in model.named_parameters()]
        use_banded(model)
        assert list(model.state_dict()) == keys
        assert [name for name, _ in model.named_parameters()] == names
        model.load_state_dict(classifier(seed=1).state_dict())
        use_library(model)
        assert_equal(model.state_dict()[keys[0]], classifier(seed=1).state_dict()[keys[0]], 0)

    def test_library_encoder_comes_back_itself(self):
        model = classifier()
        original = model.base_model.encoder
        encoder = use_banded(model)
        assert isinstance(model.base_model.encoder, BandedEncoder)
        assert use_banded(model) is encoder
        use_library(model)
        assert model.base_model.encoder is original
        use_library(model)
        assert model.base_model.encoder is original

    def test_the_mask_has_one_row_and_the_library_gets_its_own_back(self, tmp_path):
        model, texts = classifier(), Texts((9, 21), ((0,), (0, 3)), ((4,), ()))
        masks = []

        def see(_module, _args, options):
            masks.append(options["attention_mask"])

        for use in (use_library, use_banded):
            use(model)
            context = one_row_mask(model) if use is use_banded else nullcontext()
            with context, model.base_model.encoder.register_forward_pre_hook(see, with_kwargs=True):
                model(**texts.inputs())
        model.save_pretrained(tmp_path)
        use_library(model)
        assert torch.equal(masks[1], masks[0][:, : masks[1].shape[1]])
        assert masks[1].untyped_storage().nbytes() == masks[1].nbytes < masks[0].untyped_storage().nbytes()
        assert model.config._attn_implementation == "eager"
        assert AutoModelForSequenceClassification.from_pretrained(tmp_path).config._attn_implementation == "eager"

    def test_the_config_is_the_library_s_while_the_model_does_not_run(self):
        model, texts = classifier(), Texts((9,), ((0,),))
        expected = model(**texts.inputs()).logits
        use_banded(model)
        twin = copy.deepcopy(model)
        with one_row_mask(model):
            assert_equal(model(**texts.inputs()).logits, expected, 1e-6)
        assert type(model)(model.config).config._attn_implementation == "eager"
        model.config.output_attentions = True
        with one_row_mask(model):
            assert len(model(**texts.inputs()).attentions) == model.config.num_hidden_layers
        use_library(twin)
        assert_equal(twin(**texts.inputs()).logits, expected, 1e-6)

    def test_a_model_that_returns_attention_can_be_saved(self, tmp_path):
        model, texts = classifier(), Texts((9,), ((0,),))
        model.config.output_attentions = True
        expected = model(**texts.inputs()).attentions
        use_banded(model)
        for ours, theirs in zip(model(**texts.inputs()).attentions, expected, strict=True):
            assert_equal(ours, theirs, 1e-6)
        model.save_pretrained(tmp_path)

    def test_training_flag_is_kept(self):
        model = classifier(attention_probs_dropout_prob=0.0).train()
        assert use_banded(model).training
        assert all(layer.training for layer in model.base_model.encoder.layer)

    def test_other_families_are_refused(self):
        with pytest.raises(UnsupportedError, match="BertForSequenceClassification"):
            use_banded(tiny_module("bert"))

    @pytest.mark.parametrize("window", [4, 8, [4, 16, 8]])
    def test_verification_measures_rounding_only(self, window):
        model = classifier(torch.float32, attention_window=window)
        assert difference_from_library(use_banded(model, verify=False)) < 1e-5

    def test_a_wrong_encoder_is_not_swapped_in(self, monkeypatch):
        right = longformer_layer.global_products
        monkeypatch.setattr(longformer_layer, "global_products", lambda *parts: 1.01 * right(*parts))
        model = classifier()
        original = model.base_model.encoder
        layers = list(original.layer)
        with pytest.raises(ModelError, match="differs from the library's"):
            use_banded(model)
        assert model.base_model.encoder is original
        assert list(original.layer) == layers


class TestObservingTheLibrary:
    def hooks(self, model):
        return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())

    def test_hooks_are_removed_even_after_an_exception(self):
        model, texts = classifier(), Texts((9,), ((0,),))
        too_long = Texts((200,), ((0,),))
        with pytest.raises(IndexError), observe_library(model):
            model(**too_long.inputs())
        assert self.hooks(model) == 0
        with observe_library(model):
            assert self.hooks(model) == 4
            model(**texts.inputs())
        assert self.hooks(model) == 0

    def test_nothing_is_kept_without_a_recorder(self):
        model, texts = classifier(), Texts((9,), ((0,),))
        with observe_library(model):
            inside = model(**texts.inputs()).logits
        assert_equal(inside, model(**texts.inputs()).logits, 0)

    def test_the_banded_encoder_is_refused(self):
        model = classifier()
        use_banded(model)
        with pytest.raises(UnsupportedError, match="use_library"), observe_library(model):
            pass


def test_windows_the_library_cannot_run_are_refused_for_its_own_attention():
    module = tiny_module("longformer", attention_window=[4, 8, 6])
    with pytest.raises(UnsupportedError, match=r"window divides the largest, and here they are \[4, 8, 6\]"):
        load(module, attention="library")
    load(module, attention="banded")


@pytest.mark.parametrize("positions", ["ab", 5, [1.5], [True], [[0, 1]], [None]])
def test_global_tokens_that_are_not_positions_are_refused(positions):
    with pytest.raises(InputError, match="Global tokens are a list of positions"):
        tiny_model("longformer").encode(ids=tiny_ids("longformer"), global_tokens=positions)


@pytest.mark.parametrize("positions", [(3, 0, 3), np.array([0, 3]), torch.tensor([3, 0]), {0, 3}, range(0, 4, 3)])
def test_global_tokens_may_be_any_collection_of_positions(positions):
    encoding = tiny_model("longformer").encode(ids=tiny_ids("longformer"), global_tokens=positions)
    assert encoding.global_tokens == (0, 3)
