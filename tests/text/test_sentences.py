"""Where sentences and paragraphs begin: prose, lists, headings, and the clauses of contracts."""

from __future__ import annotations

import pytest

from sightline.text.sentences import paragraph_starts, sentence_starts


def split(text):
    starts = sentence_starts(text).tolist()
    return [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("The mill. The river.", ["The mill. ", "The river."]),
        ("Really?! Yes.", ["Really?! ", "Yes."]),
        ('He said "no." Then left.', ['He said "no." ', "Then left."]),
        ("See e.g. this one, 3.14 of them.", ["See e.g. this one, 3.14 of them."]),
        ("Title\n\nfirst words", ["Title\n\n", "first words"]),
        ("日本。語！本", ["日本。", "語！", "本"]),
        ("one line\nanother", ["one line\nanother"]),
        ("The end.  ", ["The end.  "]),
        # Data sets in lower case, one sentence per line.
        ("they crash .\none dies\n.\nwhy ?", ["they crash .\n", "one dies\n.\n", "why ?"]),
        ("as shown by Xu et al.\nin their survey", ["as shown by Xu et al.\nin their survey"]),
        # Lists.
        ("Given: 1.\tAspirin daily. 2.\tRest.", ["Given: ", "1.\tAspirin daily. ", "2.\tRest."]),
        ("Buy\n1. Milk\n2. Bread for\ntwo", ["Buy\n", "1. Milk\n", "2. Bread for\ntwo"]),
        ("It has\n• a mill\n• a river", ["It has\n", "• a mill\n", "• a river"]),
        ("The value is 3.\nThe end", ["The value is 3.\n", "The end"]),
        # Headings.
        ("1 INTRODUCTION\nThe mill", ["1 INTRODUCTION\n", "The mill"]),
        ("Done.\n2.1 Old mills\nThe mill", ["Done.\n", "2.1 Old mills\n", "The mill"]),
        ("## Mills\n### Old\nThe mill", ["## Mills\n", "### Old\n", "The mill"]),
        ("Done.\nCOURSE IN HOSPITAL:\n  She was well.", ["Done.\n", "COURSE IN HOSPITAL:\n  ", "She was well."]),
        (
            "Done.\nTHE SELLER GIVES NO\nWARRANTY OF ANY KIND.",
            ["Done.\n", "THE SELLER GIVES NO\nWARRANTY OF ANY KIND."],
        ),
        ("in the year of\n12 Angry Men\nThe Mill won", ["in the year of\n12 Angry Men\nThe Mill won"]),
        ("", [""]),
    ],
)
def test_sentences_end_where_a_reader_ends_them(text, sentences):
    assert split(text) == sentences


CONTRACTS = {
    "numbered heading": ["## 1. Definitions\n", "In this Agreement the following applies."],
    "bold heading": ["**12. Term**\n\n", "This Agreement begins today."],
    "labelled heading": ["Done.\n", "ARTICLE IV. TERM\n", "The term is one year. ", "It ends on 1 May."],
    "label without a title": ["Section 3\n", "The price is fixed."],
    "label above clauses": ["Section 3\n", "(a) The price is fixed.\n", "(b) It is paid in euros."],
    "heading of a line": ["Section 3. Price. ", "The price is fixed. ", "It is paid in euros."],
    "clause numbers": ["1.1 The Seller sells.\n", "1.2. The Buyer pays.\n", "1.2.1. Payment is in cash."],
    "clause number after a semicolon": ["1.1 The Seller sells; and\n", "1.2 The Buyer pays."],
    "numbers inside a line": ["The rate is 1.2 Percent under clause 4.1 The Bank decides."],
    "wrapped clause": ["4.1 The Customer shall pay to the\nSupplier all fees.\n", "4.2 No more."],
    "wrapped clause that ends in a name": ["4. The Customer shall pay Acme\nSupplies all fees."],
    "recitals": ["RECITALS\n", "A. The Seller owns a mill.\n", "B. Delta Corp. wants to buy it."],
    "lettered clauses": ["The Supplier shall:\n", "(a) deliver the Goods;\n", "(b) keep records; and\n", "(c) report."],
    "indented clauses": ["It shall\n  ", "(i) deliver,\n  ", "(ii) invoice, and\n  ", "(aa) report"],
    "letters with one bracket": ["It shall\n", "a) deliver\n", "b) invoice"],
    "clauses after full stops": ["(a) The Seller sells. ", "(b) The Buyer pays."],
    "clauses inside a line": [
        "The Supplier shall (a) deliver the Goods, (b) invoice, and (c) report. ",
        "It may not sell.",
    ],
    "wrapped reference": ["The fees under clause 4\n(a) of Schedule B are due. ", "They are fixed."],
    "wrapped reference to several clauses": ["The fees under this section\n(a) and (b) are due."],
    "wrapped label": ["The fees are as set out in\nSection 3. ", "Payment is due."],
    "company before a bracket": ['Acme Ltd. (the "Supplier") and Delta Inc. ("Delta") agree. ', "They sign."],
    "company before a comma": ["Acme Inc., a company, sells."],
    "company at the end": ["The mill is sold to Acme Ltd. ", "The price is fixed."],
    "company at the end of a line": [
        "This is made between Acme Ltd.\nand Delta Inc.\n(together the Parties). ",
        "They agree.",
    ],
    "company of two": ["Delta Co. Inc. sells to Mills Pty. Ltd. ", "Payment is due."],
    "company before a blank line": ["Acme Ltd.\n\n", "(together the Parties)"],
    "company above a clause": ["It is sold by Acme Ltd.\n", "(b) The price is fixed."],
    "number": ["Company No. 5 and Nos. 7 and 8 (Reg. No. 9, HRB Nr. 12) agree. ", "No. ", "They do not."],
    "article": ["Under Art. 3 and arts. 4 to 6, Art. IV applies. ", "It was modern art. ", "Buyers came."],
    "section": ["See Sec. 2.1 and Secs. 3(a) and 4. ", "See § 5. ", "Ex. A applies."],
    "wrapped number": ["As set out in Art.\n3 and Sec. \n 2.1, it applies."],
    "German references": ["Nach Art. 6 Abs. 1 S. 1 lit. a DSGVO ist es erlaubt. ", "Es gilt Nr. 5."],
    "dates": ["It is dated 3 Jan. 2021. ", "It ends in Dec. ", "The term is fixed."],
    "titles": ["Dr. Who and Messrs. Smith and Jones sign. ", "So does Ms. Mill."],
    "cases": ["In Smith v. Jones, cf. Mill vs. Delta, it was held otherwise. ", "We agree."],
    "initials": [
        "Signed by J. Smith and John F. Kennedy. ",
        "See Exhibit A. ",
        "Payment is due under Plan B. ",
        "It ends.",
    ],
    "acronyms": ["The U.S. Government and the U.K. (Wales) agree. ", "It left the U.S. ", "The rest did not."],
}


@pytest.mark.parametrize("sentences", CONTRACTS.values(), ids=CONTRACTS)
def test_sentences_of_contracts_are_their_clauses(sentences):
    assert split("".join(sentences)) == sentences


def test_paragraphs_begin_after_blank_lines():
    assert paragraph_starts("one\ntwo\n \n three").tolist() == [0, 11]


def test_a_text_may_end_in_any_number_of_blank_lines():
    text = "The mill. The river." + "\n \n" * 100_000
    assert sentence_starts(text).tolist() == [0, 10]
    assert paragraph_starts(text).tolist() == [0]
