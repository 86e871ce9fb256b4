"""text: from a string to the tokens a model reads, each tied to its place in the original.

Encoding        one document: ids, spans, words, specials, what truncation dropped
Units, units_of the tokens, words, sentences or paragraphs of a document as groups of tokens
Example, as_examples   one row of a data set: a text with what is known about it; rows in memory as examples
encode_text     a text or a pair, through a fast tokenizer
encode_ids      bare ids, for a model without tokenizer
encode_chat     messages with roles, through the tokenizer's template
continue_text, continue_ids   a prompt and what follows it, as one document
Windows, read_in_windows   a long document as overlapping windows that a short model reads
load_tokenizer, check_fit, check_known   a tokenizer, and whether it fits the model
fingerprint_vocabulary   a digest that identifies a vocabulary
"""

from sightline.text.chat import Chat, check_chat, encode_chat, is_chat
from sightline.text.continuation import continue_ids, continue_text
from sightline.text.encode import MAX_CHARACTERS, check_text, encode_ids, encode_text
from sightline.text.encoding import Aggregation, Encoding, Windows
from sightline.text.examples import Example, as_examples
from sightline.text.tokenizers import check_fit, check_known, fingerprint_vocabulary, load_tokenizer, special_tokens
from sightline.text.units import LEVELS, Level, Units, units_of
from sightline.text.windows import cut_windows, read_in_windows, window_encodings
from sightline.text.words import Word, split_words

__all__ = [
    "LEVELS",
    "MAX_CHARACTERS",
    "Aggregation",
    "Chat",
    "Encoding",
    "Example",
    "Level",
    "Units",
    "Windows",
    "Word",
    "as_examples",
    "check_chat",
    "check_fit",
    "check_known",
    "check_text",
    "continue_ids",
    "continue_text",
    "cut_windows",
    "encode_chat",
    "encode_ids",
    "encode_text",
    "fingerprint_vocabulary",
    "is_chat",
    "load_tokenizer",
    "read_in_windows",
    "special_tokens",
    "split_words",
    "units_of",
    "window_encodings",
]
