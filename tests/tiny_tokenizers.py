"""Small tokenizers of the three kinds that matter, built in milliseconds and without a download.

They behave as the well-known ones do: `wordpiece` as BERT's, `byte_level` as RoBERTa's and GPT-2's, `unigram` as
XLM-RoBERTa's. All know "hello world the mill(er) old river"; other words fall into pieces.
"""

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

BERT_SPECIALS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
ROBERTA_SPECIALS = {
    "bos_token": "<s>",
    "cls_token": "<s>",
    "pad_token": "<pad>",
    "eos_token": "</s>",
    "sep_token": "</s>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
}
ROBERTA_ORDER = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def wordpiece(lowercase: bool = True) -> PreTrainedTokenizerFast:
    """Lower-cases, strips accents, sets ideographs apart; "##" continues a word. Token types tell pairs apart."""
    pieces = [*BERT_SPECIALS.values(), "hello", "world", "the", "mill", "##er", "river", "##s", "old", "cafe", "naive"]
    pieces += ["日", "本", "語", *".,:;!?'\"()-"]
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    pieces += [*letters, *("##" + letter for letter in letters)]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **BERT_SPECIALS,
    )


def byte_level(add_prefix_space: bool = False, trim_offsets: bool = True) -> PreTrainedTokenizerFast:
    """Byte-level BPE: spaces are part of tokens ("Ġ"), an emoji is several tokens, nothing is unknown."""
    words = ["Ġhello", "Ġworld", "Ġthe", "Ġmill", "Ġold", "Ġriver", "hello", "er", "don"]
    # Every word is built up from its first byte: h+e, he+l, hel+l, hell+o.
    merges = list(dict.fromkeys((word[:i], word[i]) for word in words for i in range(1, len(word))))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = dict.fromkeys([*ROBERTA_ORDER, *alphabet, *("".join(merge) for merge in merges)])
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=trim_offsets, add_prefix_space=add_prefix_space
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_input_names=["input_ids", "attention_mask"], **ROBERTA_SPECIALS
    )


def unigram(prepend_scheme: str = "always") -> PreTrainedTokenizerFast:
    """Unigram over "▁"-marked words after compatibility normalisation and joining of spaces, as SentencePiece does."""
    words = ["▁hello", "▁world", "▁the", "▁mill", "er", "▁old", "▁river", "▁don't", "▁café", "日本"]
    letters = "abcdefghijklmnopqrstuvwxyz0123456789é日本語.,:;!?'\"()-▁"
    pieces = [(special, 0.0) for special in ROBERTA_ORDER]
    pieces += [(word, -3.0) for word in words] + [(letter, -8.0) for letter in letters]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=ROBERTA_ORDER.index("<unk>")))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Replace("\n", " "), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prepend_scheme)
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_input_names=["input_ids", "attention_mask"], **ROBERTA_SPECIALS
    )


ALL_KINDS = {
    "wordpiece": wordpiece,
    "wordpiece_cased": lambda: wordpiece(lowercase=False),
    "byte_level": byte_level,
    "byte_level_prefix": lambda: byte_level(add_prefix_space=True),
    "byte_level_untrimmed": lambda: byte_level(trim_offsets=False),
    "byte_level_prefix_untrimmed": lambda: byte_level(add_prefix_space=True, trim_offsets=False),
    "unigram": unigram,
    "unigram_first": lambda: unigram(prepend_scheme="first"),
}
