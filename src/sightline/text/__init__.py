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

from sightline.text.chat import Chat as Chat
from sightline.text.chat import check_chat as check_chat
from sightline.text.chat import encode_chat as encode_chat
from sightline.text.chat import is_chat as is_chat
from sightline.text.continuation import continue_ids as continue_ids
from sightline.text.continuation import continue_text as continue_text
from sightline.text.encode import MAX_CHARACTERS as MAX_CHARACTERS
from sightline.text.encode import check_text as check_text
from sightline.text.encode import encode_ids as encode_ids
from sightline.text.encode import encode_text as encode_text
from sightline.text.encoding import Aggregation as Aggregation
from sightline.text.encoding import Encoding as Encoding
from sightline.text.encoding import Windows as Windows
from sightline.text.examples import Example as Example
from sightline.text.examples import as_examples as as_examples
from sightline.text.tokenizers import check_fit as check_fit
from sightline.text.tokenizers import check_known as check_known
from sightline.text.tokenizers import fingerprint_vocabulary as fingerprint_vocabulary
from sightline.text.tokenizers import load_tokenizer as load_tokenizer
from sightline.text.tokenizers import special_tokens as special_tokens
from sightline.text.units import LEVELS as LEVELS
from sightline.text.units import Level as Level
from sightline.text.units import Units as Units
from sightline.text.units import units_of as units_of
from sightline.text.windows import cut_windows as cut_windows
from sightline.text.windows import read_in_windows as read_in_windows
from sightline.text.windows import window_encodings as window_encodings
from sightline.text.words import Word as Word
from sightline.text.words import split_words as split_words
