"""Heads: what is predicted, what is explained, and which rows are read."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForTokenClassification,
    BertModel,
    BertPreTrainedModel,
)
from transformers.modeling_outputs import SequenceClassifierOutput

from sightline.api.load import load
from sightline.errors import InputError, ModelError, OptionError, TargetError, UnsupportedError
from sightline.models.inputs import find_global_tokens, pad_inputs
from sightline.models.target import Request, parse_target
from sightline.models.tasks import TASKS, task_class
from sightline.view.words.sentences import prediction_sentence
from tests.tiny_models import tiny_ids, tiny_model, tiny_module
from tests.tiny_tokenizers import wordpiece


def test_the_predicted_class_is_explained_by_default():
    model = tiny_model()
    trace = model.trace(model.encode(ids=tiny_ids()))
    assert trace.target.index == int(np.argmax(trace.logits)) == trace.prediction.index
    first, *others = np.sort(trace.logits)[::-1]
    assert trace.value == pytest.approx(first - np.log(np.exp(others).sum()))
    np.testing.assert_allclose(trace.probabilities, np.exp(trace.logits) / np.exp(trace.logits).sum())


@pytest.mark.parametrize("wanted", [1, "1", "LABEL_1", "label_1", np.int64(1)])
def test_a_class_is_named_by_number_or_label(wanted):
    model = tiny_model()
    assert model.trace(model.encode(ids=tiny_ids()), target=wanted).target.index == 1


def test_a_contrast_is_the_difference_of_two_logits():
    model = tiny_model()
    trace = model.trace(model.encode(ids=tiny_ids()), target=(2, "LABEL_0"))
    assert trace.value == pytest.approx(trace.logits[2] - trace.logits[0])
    assert trace.target.description() == "log-odds of 'LABEL_2' against 'LABEL_0'"


def test_the_gradient_of_a_contrast_is_the_difference_of_gradients():
    model = tiny_model()
    encoding = model.encode(ids=tiny_ids())
    first, second, both = (model.trace(encoding, target=t, quantity="logit").embedding_gradient for t in (2, 0, (2, 0)))
    np.testing.assert_allclose(both, first - second, atol=1e-12)


@pytest.mark.parametrize(
    ("quantity", "value"),
    [
        ("logit", lambda z: z[1]),
        ("probability", lambda z: np.exp(z[1]) / np.exp(z).sum()),
        ("log_probability", lambda z: z[1] - np.log(np.exp(z).sum())),
    ],
)
def test_quantities(quantity, value):
    model = tiny_model()
    trace = model.trace(model.encode(ids=tiny_ids()), target=1, quantity=quantity)
    assert trace.value == pytest.approx(value(trace.logits))


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (3, r"Class 3 asked for, the model has 3 classes \(0-2\)"),
        (-1, "Class -1 asked for"),
        ("LABEL_9", "There is no label 'LABEL_9'. Did you mean"),
        ((1, 1), "two different classes"),
        ((0, 1, 2), "A contrast names two classes"),
        (True, "class number or a label"),
        (["LABEL_0", "LABEL_1"], r"A list is not a target: .* a tuple \(A, B\) or the text 'A:B'"),
        ("LABEL_0:LABEL_9", "There is no label 'LABEL_9'"),
    ],
)
def test_a_target_that_does_not_exist_is_refused(wanted, message):
    model = tiny_model()
    with pytest.raises(TargetError, match=message):
        model.explain(model.encode(ids=tiny_ids()), target=wanted)


def test_a_list_of_targets_for_a_list_of_documents_is_refused():
    model = tiny_model()
    documents = [model.encode(ids=tiny_ids(seed=seed)) for seed in range(2)]
    with pytest.raises(TargetError, match="A list is not a target"):
        model.explain(documents, "attcat", target=["LABEL_0", "LABEL_1"])


def test_a_colon_is_a_contrast_only_when_no_label_has_it():
    labels = ("a", "b:c", "c")
    assert parse_target("b:c", labels) == "b:c"
    assert parse_target("a:b:c", labels) == ("a", "b:c")
    assert parse_target("b:c:a", labels) == ("b:c", "a")
    assert parse_target("0 : 2", labels) == ("0", "2")
    assert parse_target("a:x", labels) == ("a", "x")  # the mistake is reported by its name
    assert parse_target("x:y", labels) == "x:y"
    assert parse_target(None, labels) is None
    with pytest.raises(TargetError, match="'a' against 'b:c' or 'a:b' against 'c': give the numbers"):
        parse_target("a:b:c", ("a", "a:b", "b:c", "c"))


def test_python_reads_a_contrast_as_the_command_line_writes_it():
    model = tiny_model()
    encoding = model.encode(ids=tiny_ids())
    contrast = model.trace(encoding, ("LABEL_2", "LABEL_0")).target
    assert model.trace(encoding, contrast.name).target == contrast


def test_an_unknown_quantity_is_refused():
    model = tiny_model()
    with pytest.raises(OptionError, match="no target quantity 'odds'"):
        model.explain(model.encode(ids=tiny_ids()), quantity="odds")


def test_mean_pooling_reads_every_row_alike():
    model = tiny_model("modernbert", classifier_pooling="mean")
    trace = model.trace(model.encode(ids=tiny_ids("modernbert", 8)))
    np.testing.assert_allclose(trace.readout, np.full(8, 1 / 8))


def test_multi_label_heads_use_independent_probabilities():
    model = tiny_model(problem_type="multi_label_classification")
    trace = model.trace(model.encode(ids=tiny_ids()))
    np.testing.assert_allclose(trace.probabilities, 1 / (1 + np.exp(-trace.logits)))


def test_labels_of_the_same_name_are_told_apart_by_their_numbers():
    model = tiny_model(id2label={0: "same", 1: "same", 2: " "})
    assert model.labels == ("same (0)", "same (1)", "LABEL_2")
    explanations = model.explain(model.encode(ids=tiny_ids()), "gradient", target="all").by_target()
    assert [explanation.target.index for explanation in explanations.values()] == [0, 1, 2]


def test_several_numbers_at_once_are_refused_and_one_number_has_no_probability():
    with pytest.raises(UnsupportedError, match="predicts 3 numbers at once .problem_type 'regression'., which have no"):
        tiny_model(problem_type="regression")
    model = tiny_model(problem_type="regression", num_labels=1)
    encoding = model.encode(ids=tiny_ids())
    for quantity in ("probability", "log_probability"):
        with pytest.raises(OptionError, match=f"single output, which has no {quantity}: choose the quantity 'logit'"):
            model.explain(encoding, "gradient", quantity=quantity)
    explanation = model.explain(encoding, "occlusion")
    assert explanation.target.quantity == "logit"
    assert (
        prediction_sentence(explanation)
        == f"The model gives 'LABEL_0' the value {explanation.prediction.logits[0]:.3g}."
    )


def test_token_classification_explains_the_token_requested():
    model = load(tiny_module(auto=AutoModelForTokenClassification))
    encoding = model.encode(ids=tiny_ids())
    trace = model.trace(encoding, target=1, position=4)
    assert trace.target.position == 4
    assert np.flatnonzero(trace.readout).tolist() == [4]
    expected = model.network.module(torch.tensor([encoding.ids.tolist()])).logits[0, 4]
    np.testing.assert_allclose(trace.logits, expected.detach().numpy(), atol=1e-10)
    with pytest.raises(TargetError, match="Token 99 asked for, the document has 11"):
        model.explain(encoding, position=99)


def test_masked_language_models_explain_the_mask():
    tokenizer = wordpiece()
    module = tiny_module(auto=AutoModelForMaskedLM, vocab_size=max(128, len(tokenizer)))
    model = load(module, tokenizer=tokenizer)
    text = f"the {tokenizer.mask_token} sat"
    encoding = model.encode(text)
    trace = model.trace(encoding)
    place = encoding.ids.tolist().index(tokenizer.mask_token_id)
    assert trace.target.position == place
    assert len(trace.prediction.labels) == 50
    assert trace.prediction.labels[0] == trace.prediction.label
    assert np.flatnonzero(trace.readout).tolist() == [place]
    with pytest.raises(InputError, match="no mask token"):
        model.explain("the cat sat")


def test_question_answering_explains_the_best_span_of_the_second_text():
    tokenizer = wordpiece()
    module = tiny_module(auto=AutoModelForQuestionAnswering, num_labels=2, vocab_size=max(128, len(tokenizer)))
    model = load(module, tokenizer=tokenizer)
    encoding = model.encode("who sat?", "the cat sat on the mat")
    trace = model.trace(encoding, quantity="logit")
    first, last = trace.target.span
    assert first <= last
    assert encoding.segments[first] == encoding.segments[last] == 1
    assert trace.prediction.label in "the cat sat on the mat"
    outputs = module(**pad_inputs(model.network, [encoding]))
    assert trace.value == pytest.approx(float(outputs.start_logits[0, first] + outputs.end_logits[0, last]))
    # No other allowed span scores higher.
    start, end = outputs.start_logits[0].detach().numpy(), outputs.end_logits[0].detach().numpy()
    places = np.flatnonzero(encoding.segments == 1)
    best = max(start[i] + end[j] for i in places for j in places if i <= j)
    assert trace.value == pytest.approx(best)
    with pytest.raises(TargetError, match="before it begins"):
        model.explain(encoding, target=(5, 4), quantity="logit")
    with pytest.raises(TargetError, match="pair of token numbers"):
        model.explain(encoding, target=("cat", "mat"), quantity="logit")


def test_a_head_with_three_outputs_answers_no_questions():
    with pytest.raises(ModelError, match="has 3 outputs per token; one that answers questions has 2"):
        load(tiny_module(auto=AutoModelForQuestionAnswering, num_labels=3))


def test_the_task_comes_from_the_architecture_or_is_requested():
    assert task_class(None, ["RobertaForMaskedLM"]) is TASKS["masked_lm"]
    with pytest.raises(UnsupportedError, match="found: BertModel"):
        task_class(None, ["BertModel"])
    with pytest.raises(OptionError, match="no task 'translation'"):
        task_class("translation", None)


OTHER_HEADS = {
    "sequence_classification": "token_classification",
    "token_classification": "sequence_classification",
    "masked_lm": "token_classification",
    "question_answering": "masked_lm",
}


@pytest.mark.parametrize(("trained", "asked"), OTHER_HEADS.items())
def test_a_head_is_not_used_for_a_task_it_was_not_trained_for(trained, asked, tmp_path):
    """BERT's heads for classes and for tags have weights of the same names and shapes, so the weights cannot tell."""
    auto = getattr(transformers, TASKS[trained].auto_class)
    module = tiny_module(auto=auto, dtype=torch.float32, num_labels=2)
    module.save_pretrained(tmp_path)
    refusal = rf"was trained for {trained} \({type(module).__name__}\) and has no head for {asked}: leave out task="
    for source in (tmp_path, module):
        with pytest.raises(ModelError, match=refusal):
            load(source, task=asked)
        assert load(source).task == load(source, task=trained).task == trained


def test_another_head_needs_permission_to_be_random_and_marks_every_result(tmp_path):
    tiny_module(dtype=torch.float32).save_pretrained(tmp_path)
    model = load(tmp_path, task="token_classification", allow_random=True)
    assert model.explain(model.encode(ids=tiny_ids()), "gradient").checks["untrained"] is True


def test_a_head_made_new_in_memory_counts_and_not_the_architecture_it_was_made_from(tmp_path):
    tiny_module(auto=AutoModelForMaskedLM).save_pretrained(tmp_path)
    module = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert module.config.architectures == ["BertForMaskedLM"]
    assert load(module).task == "sequence_classification"


def test_a_model_without_the_head_of_its_task_is_refused():
    with pytest.raises(ModelError, match=r"no head for masked_lm: its output \(BaseModel\w+\) has no 'logits'\. Give"):
        load(tiny_module(auto=transformers.AutoModel), task="masked_lm")
    pooled = MeanPooled(tiny_module().config).double()
    with pytest.raises(ModelError, match=r"does not return 3 scores per token, as a model for token_classification"):
        load(pooled, task="token_classification")


def test_a_message_shows_no_control_characters_of_an_architecture():
    with pytest.raises(UnsupportedError) as error:
        task_class(None, ["Bert\u2028\x1b[31mModel"])
    assert str(error.value).isprintable()


def test_predictions_are_equal_when_all_their_numbers_are():
    model = tiny_model("bert")
    first, again, other = (model.trace(model.encode(ids=tiny_ids("bert", n))).prediction for n in (9, 9, 8))
    assert first == again
    assert hash(first) == hash(again)
    assert first != other
    assert first != "first"


def test_bare_ids_of_a_longformer_give_the_question_global_attention_as_the_library_does():
    module = tiny_module("longformer", auto=AutoModelForQuestionAnswering, num_labels=2)
    ids = [0, 10, 11, 2, 2, *range(20, 30), 2]
    outputs = module(torch.tensor([ids]))
    model = load(module)
    encoding = model.encode(ids=ids)
    assert find_global_tokens(model.network, encoding) == (0, 1, 2)
    (logits,) = model.network.run([encoding])
    expected = torch.stack([outputs.start_logits[0], outputs.end_logits[0]], dim=-1)
    np.testing.assert_allclose(logits.reshape(expected.shape).numpy(), expected.detach().numpy(), atol=1e-6)


# Masked words ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def masked():
    tokenizer = wordpiece()
    return load(tiny_module(auto=AutoModelForMaskedLM, vocab_size=max(128, len(tokenizer))), tokenizer=tokenizer)


def test_one_of_several_masks_has_to_be_chosen(masked):
    text = "the [MASK] and the [MASK] river"
    with pytest.raises(InputError, match=r"2 mask tokens \(tokens 2 and 7\): choose one with position="):
        masked.explain(text, "attcat")
    trace = masked.trace(text, position=7)
    assert trace.target.position == 7
    expected = masked.network.run([masked.encode(text)])[0][7]
    np.testing.assert_allclose(trace.logits, expected, atol=1e-10)


@pytest.mark.parametrize("truncate", [False, True])
def test_a_mask_behind_what_the_model_reads_is_not_called_missing(masked, truncate):
    encoding = masked.encode("the old mill " * 100 + "[MASK]", truncate=truncate)
    assert encoding.dropped == 173
    with pytest.raises(InputError, match=r"The first 130 tokens, .* contain no mask token: .* 173 tokens too long\.$"):
        masked.explain(encoding, "attcat")
    with pytest.raises(InputError, match=r"the text has no mask token\. Write \[MASK\] where"):
        masked.explain("the old <mask>", "attcat")


def test_a_word_that_the_vocabulary_lacks_is_not_called_a_label(masked):
    with pytest.raises(TargetError, match="There is no token in the vocabulary that reads '漢'"):
        masked.explain("the [MASK] sat", "attcat", target="漢")


def test_a_word_is_explained_if_it_is_one_token(masked):
    index = masked.tokenizer.convert_tokens_to_ids("river")
    assert masked.trace("the [MASK] sat", "river").target.index == index
    contrast = masked.trace("the [MASK] sat", ("river", "mill")).target
    assert (contrast.index, contrast.contrast) == (index, masked.tokenizer.convert_tokens_to_ids("mill"))
    assert masked.trace("the [MASK] sat", "river:mill").target == contrast


def test_a_word_of_several_tokens_is_refused_with_its_tokens(masked):
    pieces = masked.tokenizer.tokenize("millers")
    assert len(pieces) > 1
    with pytest.raises(
        TargetError, match=rf"'millers' is not one token of this vocabulary but {len(pieces)} \('{pieces[0]}'"
    ):
        masked.explain("the [MASK] sat", "attcat", target="millers")
    for piece in pieces:  # as the message says
        assert masked.trace("the [MASK] sat", piece).target.index == masked.tokenizer.convert_tokens_to_ids(piece)


# Answers --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def answerer():
    tokenizer = wordpiece()
    module = tiny_module(auto=AutoModelForQuestionAnswering, num_labels=2, vocab_size=max(128, len(tokenizer)))
    return load(module, tokenizer=tokenizer)


CONTEXT = "The river runs past the old mill. Hello, Miller! The mill is old."


@pytest.fixture(scope="module")
def question(answerer):
    return answerer.encode("old mill?", CONTEXT)


def test_a_question_needs_a_context(answerer):
    for explain in (answerer.explain, answerer.trace, answerer.encode):
        with pytest.raises(InputError, match=r"give the question as the text, and the context .* \(pair=, --pair\)\.$"):
            explain(CONTEXT)
    with pytest.raises(InputError, match="The second text of the pair is empty"):
        answerer.encode("old mill?", "")


def test_a_question_and_its_context_have_names(answerer, question):
    by_name = {"question": "old mill?", "context": CONTEXT}
    assert answerer.predict(**by_name) == answerer.predict(question)
    expected = answerer.explain(question, "gradient")
    np.testing.assert_array_equal(answerer.explain(method="gradient", **by_name).scores, expected.scores)
    report = answerer.report(methods=["gradient"], check=False, inside=False, **by_name)
    np.testing.assert_array_equal(report.first.scores, expected.scores)
    with pytest.raises(OptionError, match="Give question= and context= together"):
        answerer.explain(question="old mill?")
    with pytest.raises(OptionError, match="in place of a document and its pair"):
        answerer.predict(CONTEXT, **by_name)
    with pytest.raises(OptionError, match="are for models that answer questions"):
        tiny_model().explain(**by_name)


def test_a_language_model_reads_no_second_text():
    model = load(tiny_module("gpt2", auto=transformers.AutoModelForCausalLM), tokenizer=wordpiece())
    with pytest.raises(InputError, match=r"continues one text and reads no second one .* \(--continuation\)\.$"):
        model.explain("The river", "gradient", pair="runs")


def scores_of(answerer, encoding):
    module = answerer.network.module
    outputs = module(torch.tensor([encoding.ids.tolist()]), token_type_ids=torch.tensor([encoding.type_ids.tolist()]))
    return outputs.start_logits[0].detach().numpy(), outputs.end_logits[0].detach().numpy()


def test_the_gold_answer_is_found_where_it_scores_best(answerer, question):
    start, end = scores_of(answerer, question)
    trace = answerer.trace(question, "mill", quantity="logit")
    places = [i for i in range(len(question)) if question.tokens[i] == "mill" and question.segments[i] == 1]
    assert len(places) == 2
    best = max(places, key=lambda i: start[i] + end[i])
    assert trace.target.span == (best, best)
    assert trace.target.label == "mill"
    assert trace.value == pytest.approx(start[best] + end[best])
    longer = answerer.trace(question, "the old mill", quantity="logit").target
    assert question.tokens[longer.span[0]] == "the"
    assert longer.label == "the old mill"


@pytest.mark.parametrize(("target", "side"), [((9, None), 0), ((None, 9), 1), (("9", None), 0), ("9:", 0), (":9", 1)])
def test_one_end_of_an_answer_is_explained_alone(answerer, question, target, side):
    trace = answerer.trace(question, target, quantity="logit")
    assert trace.value == pytest.approx(scores_of(answerer, question)[side][9])
    assert np.flatnonzero(trace.readout).tolist() == [9]
    assert trace.target.read_positions == (9,)
    assert ("the start of" if side == 0 else "the end of") in trace.target.description()


def test_token_numbers_are_not_a_text_that_the_context_holds(answerer):
    encoding = answerer.encode("when", "the mill opens at 12:15 at the river")
    assert answerer.trace(encoding, "12:15").target.label == "12:15"
    assert answerer.trace(encoding, "4:5").target.span == (4, 5)


def test_both_ends_of_the_best_answer_add_up(answerer, question):
    whole, start, end = (answerer.trace(question, target) for target in (None, "start", "end"))
    assert whole.target.span == start.target.span == end.target.span
    assert whole.value == pytest.approx(start.value + end.value)
    gradients = [trace.embedding_gradient for trace in (whole, start, end)]
    np.testing.assert_allclose(gradients[0], gradients[1] + gradients[2], atol=1e-12)


def test_no_answer_reads_the_first_token(answerer, question):
    start, end = scores_of(answerer, question)
    trace = answerer.trace(question, "no answer", quantity="logit")
    assert trace.value == pytest.approx(start[0] + end[0])
    assert trace.prediction.labels[1] == "no answer"
    assert trace.prediction.logits[1] == pytest.approx(start[0] + end[0])
    softmax = [np.exp(scores) / np.exp(scores).sum() for scores in (start, end)]
    assert trace.prediction.probabilities[1] == pytest.approx(softmax[0][0] * softmax[1][0])


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("Paris", "The answer 'Paris' does not occur in the context"),
        ("OLD mill", "does not occur in the context; write it as there: 'old mill'"),
        ((9, 4), "would end"),
        ((None, None), "a pair of token numbers"),
        ((1, 2, 3), "a pair of token numbers"),
        ((1, 999), "Token 999 asked for"),
        ("", "does not occur in the context"),
    ],
)
def test_an_answer_that_does_not_exist_is_refused(answerer, question, target, message):
    with pytest.raises(TargetError, match=message):
        answerer.explain(question, "attcat", target=target)


def test_targets_of_answers_are_saved(answerer, question, tmp_path):
    from sightline.results.explanation import Explanation

    explanation = answerer.explain(question, "attcat", target="end")
    explanation.save(tmp_path / "answer.json")
    assert Explanation.load(tmp_path / "answer.json").target == explanation.target


# Entities -------------------------------------------------------------------------------------------------------------


def test_entities_are_explained_one_by_one():
    labels = {0: "O", 1: "B-PER", 2: "I-PER"}
    tokenizer = wordpiece()
    module = tiny_module(auto=AutoModelForTokenClassification, id2label=labels, vocab_size=max(128, len(tokenizer)))
    model = load(module, tokenizer=tokenizer)
    encoding = model.encode(CONTEXT)
    predicted = model.network.run([encoding])[0].argmax(-1).tolist()
    firsts = [int(positions[0]) for positions in encoding.word_positions() if len(positions)]
    expected, previous = [], 0
    for first in firsts:
        if predicted[first] and (predicted[first] == 1 or not previous):
            expected.append(first)
        previous = predicted[first]
    entities = model.explain(CONTEXT, "attcat", target="entities").by_target()
    assert [explanation.target.position for explanation in entities.values()] == expected
    for name, explanation in entities.items():
        first = explanation.target.position
        assert name.startswith(encoding.tokens[first]) or name.lower().startswith(encoding.tokens[first].lower())
        alone = model.explain(encoding, "attcat", target=predicted[first], position=first)
        np.testing.assert_allclose(explanation.scores, alone.scores, atol=1e-12)
    report = model.report(CONTEXT, ["attcat"], "entities", check=False)
    assert [entry.label for entry in report.entries()] == list(entities)
    for entry, explanation in zip(report.entries(), entities.values(), strict=True):
        np.testing.assert_allclose(entry.explanation.scores, explanation.scores, atol=1e-12)
    with pytest.raises(TargetError, match="no label 'XYZ'.* The model's labels: "):
        model.explain(CONTEXT, "attcat", target="XYZ")
    for name in entities:
        chosen = model.explain(CONTEXT, "attcat", target=f"word:{name.split()[0].upper()}")
        first = next(n for n in entities if name.split()[0].lower() in n.lower().split())
        assert chosen.target == entities[first].target
    outside = torch.nn.functional.one_hot(torch.zeros(len(encoding), dtype=torch.long), 3).double()
    untagged = model.network.task.resolve(outside, encoding, Request("word:Miller"))
    assert (untagged.label, encoding.words[encoding.word_ids[untagged.position]].text) == ("O", "Miller")
    with pytest.raises(TargetError, match="no word 'absent'"):
        model.explain(CONTEXT, "attcat", target="word:absent")
    with pytest.raises(OptionError, match="leave position out"):
        model.explain(CONTEXT, "attcat", target="word:Miller", position=1)
    with pytest.raises(TargetError, match="Entities are tagged tokens"):
        tiny_model().explain(tiny_model().encode(ids=tiny_ids()), target="entities")


# Heads of unknown make ------------------------------------------------------------------------------------------------


class MeanPooled(BertPreTrainedModel):
    """A classifier that averages the last hidden states, as sentence encoders do."""

    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.classifier = torch.nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None, inputs_embeds=None):
        hidden = self.bert(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds).last_hidden_state
        weights = attention_mask[:, :, None].to(hidden.dtype)
        return SequenceClassifierOutput(logits=self.classifier((hidden * weights).sum(1) / weights.sum(1)))


class MeanHead(torch.nn.Module):
    """A head of a user's own in a class of the library: it averages the rows that the library's would not read."""

    def __init__(self, config):
        super().__init__()
        self.linear = torch.nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, hidden):
        return self.linear(hidden.mean(1))


def test_the_rows_that_a_custom_head_in_a_class_of_the_library_reads_are_measured():
    module = tiny_module("longformer")
    torch.manual_seed(0)
    module.classifier = MeanHead(module.config).double()
    ids = tiny_ids(n=11)
    # The library's attention has a softmax in single precision, whatever the model's.
    expected = module(torch.tensor([list(ids)]), torch.ones(1, len(ids))).logits[0].detach()
    model = load(module, task="sequence_classification")
    np.testing.assert_allclose(model.predict(model.encode(ids=ids)).logits, expected, atol=1e-6)
    np.testing.assert_allclose(model.trace(model.encode(ids=ids)).logits, expected, atol=1e-6)


def test_the_rows_that_a_custom_head_reads_are_measured():
    config = tiny_module().config
    torch.manual_seed(0)
    model = load(MeanPooled(config).double(), task="sequence_classification")
    encodings = [model.encode(ids=tiny_ids(n=n)) for n in (11, 7)]
    ids = torch.tensor([encodings[0].ids.tolist()])
    expected = model.network.module(ids, torch.ones_like(ids)).logits[0].detach()
    np.testing.assert_allclose(model.network.run_many(encodings)[0], expected, atol=1e-10)
    trace = model.trace(encodings[0])
    np.testing.assert_allclose(trace.logits, expected, atol=1e-10)
    np.testing.assert_allclose(trace.readout, np.full(11, 1 / 11), atol=1e-12)
    rows = model.explain(encodings[0], "raw_attention", layer=-1).scores
    attention = model.trace(encodings[0]).attentions[-1].dense().mean(0)
    np.testing.assert_allclose(rows, attention.mean(0), atol=1e-10)
    for name in ("rollout", "alti", "transatt"):
        batch = model.explain(encodings, name)
        np.testing.assert_allclose(batch[0].scores, model.explain(encodings[0], name).scores, atol=1e-10)
