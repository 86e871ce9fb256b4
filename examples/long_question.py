"""Explain an answer that was found in 3,000 words (random weights: load your own in their place)."""

import torch
from transformers import BertConfig, BertForQuestionAnswering

import sightline as sl

torch.manual_seed(0)
tokenizer = sl.load().tokenizer
sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
config = BertConfig(**sizes, vocab_size=len(tokenizer), max_position_embeddings=512)
model = sl.load(BertForQuestionAnswering(config), tokenizer=tokenizer)
paragraph = "The compiler reads every loop of the program and writes it again. " * 40
context = "\n\n".join([paragraph] * 6 + ["The neural network learns to guess which loops to unroll."])
explanation = model.explain(question="What learns to guess?", context=context, method="input_x_gradient")
print(explanation.prediction.label, len(explanation.encoding.windows.spans), explanation.top(3))
explanation.to_html("long_question.html")
