"""The report as a person meets it: drawn by a browser, read, searched, steered by keys, attacked by its document."""

from __future__ import annotations

import itertools
import logging
from dataclasses import replace

import numpy as np
import pytest

from sightline.models.target import Prediction, Target
from sightline.results.check import Artefact, Exchange
from sightline.view import colours
from sightline.view.words.verdict import describe_verdict
from tests.browsing import settle, wait_until
from tests.sample_explanations import check_of, encoding, explanation, prediction
from tests.sample_pages import render_page
from tests.view.conftest import choose, open_appearance, open_fold, open_view
from tests.view.sample_inside import long_inside, sample_inside

pytestmark = pytest.mark.browser

DRAWN_TEXT = "[...document.querySelectorAll('.text .block')].map(block => block.textContent)"
HOSTILE = (
    "hello <script>window.hacked = 1</script> <img src=x onerror='window.hacked = 2'> </script><script>alert(1)"
    "</script>\n<!-- <style>*{display:none}</style> --> &lt;b&gt; ]]> ${window.hacked = 3} \\u003c javascript:alert(2) "
    "\u2028 mill <svg/onload=alert(3)> \"quotes' ` \u202e\u2066 e\u0301\u0323\u0328 "
)
LONG = "\n\n".join(f"The old mill {i} runs, hello river world {i * 7}; the miller is old." for i in range(1200))
PAINTED = "spans => spans.map(span => span.className.replace(/ ?unit/, ''))"


def checked(exp, matters):
    return replace(exp, check=check_of(exp, 0, matters=matters))


def texts(page, selector: str) -> list[str]:
    return [text.replace("\n", "") for text in page.locator(selector).all_inner_texts()]


def listed(page, side: str) -> list[str]:
    """The strongest words of one side, each with what hovering tells."""
    words = page.locator(f"[data-side={side}] li button")
    return words.evaluate_all("all => all.map(one => `${one.textContent.trim()}: ${one.title}`)")


def word(page, text: str):
    return page.locator(".text .unit").get_by_text(text, exact=True)


def chosen(page) -> str:
    return page.evaluate("document.querySelector('.text .chosen').textContent")


@pytest.mark.parametrize("bytes_", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "  hello\tworld\r\n\r\n\n   the  old mill \n",
        "שלום old עולם\nمرحبا mill\nthe river",
        "hello 👩‍👩‍👧‍👦🏽 𝔘nicode 🎉🎉 old mill",
        HOSTILE,
    ],
    ids=["white space", "right to left", "emoji", "hostile"],
)
def test_the_drawn_text_is_the_original_character_for_character(open_page, text, bytes_):
    page = open_page(render_page([explanation(encoding(text, "hello " + text, bytes_=bytes_))]))
    for level in ("words", "tokens", "sentences", "paragraphs"):
        choose(page, "level", level)
        assert page.evaluate(DRAWN_TEXT) == [text, "hello " + text]
        coloured = "".join(page.locator(".text .unit").all_text_contents())
        assert len(coloured) > 0.5 * len("".join((text * 2).split()))


def test_one_layout_shows_all_levels_and_only_class_names_change(open_page):
    page = open_page(
        render_page([explanation(encoding("The river runs past the old miller. Hello!\n\nThe mill, old."))])
    )
    page.evaluate("window.kept = [...document.querySelectorAll('.text span')]")
    drawn = {}
    for level in ("tokens", "words", "sentences", "paragraphs"):
        choose(page, "level", level)
        drawn[level] = page.locator(".text .unit:not([data-special])").all_inner_texts()
    assert drawn["words"] == [
        "The",
        "river",
        "runs",
        "past",
        "the",
        "old",
        "miller",
        ".",
        "Hello",
        "!",
        "The",
        "mill",
        ",",
        "old",
        ".",
    ]
    assert drawn["sentences"] == ["The river runs past the old miller.", "Hello!", "The mill, old."]
    assert drawn["paragraphs"] == ["The river runs past the old miller. Hello!", "The mill, old."]
    assert len(drawn["tokens"]) > len(drawn["words"])
    assert page.evaluate(
        "(now => now.length === kept.length && now.every((one, i) => one === kept[i]))"
        "([...document.querySelectorAll('.text span')])"
    )


def test_a_chosen_word_stays_chosen_as_its_sentence_and_the_text_does_not_move(open_page):
    page = open_page(render_page([explanation(encoding(LONG[:8000]))]))
    for _ in range(6):
        page.keyboard.press("n")
    place = page.locator(".scroller").evaluate("box => box.scrollTop")
    word_chosen = chosen(page)
    choose(page, "level", "sentences")
    assert word_chosen in chosen(page)
    assert len(chosen(page)) > len(word_chosen)
    assert page.locator(".scroller").evaluate("box => box.scrollTop") == place
    open_view(page, "Compare methods")
    assert page.evaluate("document.querySelector('.text').checkVisibility()") is False
    open_view(page, "Text")
    assert page.locator(".text").is_visible()
    assert page.locator(".scroller").evaluate("box => box.scrollTop") == place


def test_a_hostile_document_label_or_title_never_becomes_an_element(open_page):
    evil = Prediction(0, HOSTILE, 0.5, (HOSTILE, "<b>"), np.zeros(2), np.full(2, 0.5))
    encoded = encoding(HOSTILE)
    exp = explanation(
        encoded,
        method="<i>m</i>",
        prediction=evil,
        target=Target(0, HOSTILE),
        checks={"<u>check</u>": "<img src=x onerror=alert(4)>", "not_comparable": "<img src=x onerror=alert(5)>"},
        options={"<s>": HOSTILE},
        provenance={"model": "</script><script>window.hacked = 5</script>"},
        layers=np.ones((2, len(encoded))),
    )
    page = open_page(render_page([exp, exp], title=HOSTILE, inside=sample_inside(encoded)))
    page.keyboard.press("n")
    page.locator("[data-control=find]").fill("<script>")
    for view in ("What would change it", "Compare methods", "Inside the model", "Text"):
        open_view(page, view)
    word(page, "mill").hover()
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.scripts.length") == 2
    ours = "svg:not(.links, .mark svg), b:not(.tip b)"
    foreign = f"img, u, s, script:not(body > script), style:not(head style), {ours}"
    assert page.locator(foreign).count() == 0
    assert page.evaluate("document.title").startswith("hello <script>")


def test_a_word_of_100000_characters_can_be_read_and_clicked(open_page):
    text = "old " + "x" * 100_000 + " mill"
    page = open_page(render_page([explanation(encoding(text, max_tokens=200))]))
    assert page.evaluate(DRAWN_TEXT) == [text]
    page.locator(".text .unit").nth(2).click(position={"x": 5, "y": 5})
    assert len(page.locator(".card h2").inner_text()) < 200
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_policy_stops_injected_scripts_and_requests(browser, tmp_path):
    explanation().to_html(tmp_path / "page.html")
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    blocked = page.evaluate(
        """async () => {
            const seen = [];
            const both = new Promise((done) => document.addEventListener('securitypolicyviolation', (event) => {
                if (seen.push(event.effectiveDirective) === 2) done();
            }));
            const script = document.createElement('script');
            script.textContent = 'window.hacked = 1';
            document.body.append(script);
            const image = document.createElement('img');
            image.src = 'https://example.org/x.png';
            document.body.append(image);
            await both;
            return [window.hacked ?? null, seen.sort()];
        }"""
    )
    page.close()
    assert blocked == [None, ["img-src", "script-src-elem"]]


def test_words_are_coloured_as_the_python_scale_says(open_page):
    encoded = encoding(LONG[:6000])
    scores = (np.random.default_rng(3).standard_t(2, len(encoded)) ** 3).astype(np.float32)
    exp = explanation(encoded, scores)
    page = open_page(render_page([exp]))
    drawn = page.locator(".text .unit:not([data-special])").evaluate_all(PAINTED)
    levels = colours.levels([word.score for word in exp.words()])
    assert drawn == [f"{'for' if level > 0 else 'against'}-{abs(level)}" if level else "" for level in levels]
    strongest = page.locator(f".text .for-{colours.LEVELS}").first
    background = strongest.evaluate("span => getComputedStyle(span).backgroundColor")
    red, green, blue = (int(colours.steps("for")[-1][i : i + 2], 16) for i in (1, 3, 5))
    assert background == f"rgb({red}, {green}, {blue})"


def test_hovering_shows_score_rank_and_position(open_page):
    exp = explanation(encoding("hello world the old mill"), [9.0, 0.5, -0.5, 2.0, 0.0, -3.0, -9.0])
    page = open_page(render_page([exp]))
    assert page.locator(".tip").count() == 0
    word(page, "mill").hover()
    assert page.locator(".tip").inner_text().split("\n") == [
        "mill",
        "−50 % of the total against “PL”",
        "rank 1 of 5, score −3",
        "word 5, token position 5",
    ]


def test_the_lists_hold_top_words_for_and_against_with_repeats_added_up(open_page):
    exp = explanation(encoding("The river the RIVER old"), [0.0, 1.0, -2.0, 1.0, -5.0, 1.0, 0.0])
    page = open_page(render_page([exp]))
    assert texts(page, ".sides h2") == ["Strongest words for “PL”", "Strongest words against"]
    assert listed(page, "for") == ["old: +10 % of the total, score +1"]
    assert listed(page, "against") == ["river ×2: −70 % of the total, score −7"]
    shares = open_fold(page, "shares")
    assert "stop words and punctuation, 20 % of the total" in shares.inner_text()
    shares.get_by_label("list them too").check()
    assert listed(page, "for") == ["The ×2: +20 % of the total, score +2", "old: +10 % of the total, score +1"]
    shares.get_by_text("add up repeated words").click()
    assert listed(page, "against") == ["RIVER: −50 % of the total, score −5", "river: −20 % of the total, score −2"]


def test_artefacts_are_marked_explained_and_left_out_of_lists(open_page):
    exchange = Exchange(2, 3, (Artefact((2,), "position", 1.0, 0.0),))
    encoded = encoding("world river old mill")
    exp = explanation(encoded, [0.0, 1.0, 4.0, -2.0, 3.0, 0.0], exchange=exchange)
    other = explanation(encoded, [0.0, 1.0, 4.0, -2.0, 3.0, 0.0], method="rollout")
    page = open_page(render_page([exp, other]))
    assert [line.split(" of ")[0] for line in listed(page, "for")] == ["mill: +30 %", "world: +10 %"]
    shares = open_fold(page, "shares")
    assert "stop words, punctuation and artefacts, 40 % of the total" in shares.inner_text()
    assert texts(page, ".text span.artefact") == ["river"]
    assert "1 artefact" in page.locator("[data-section=artefact-legend]").inner_text()
    word(page, "river").click()
    note = page.locator("[data-section=artefact]").inner_text()
    assert note == "Artefact: this score belongs to the position, not to the word."
    word(page, "mill").click()
    assert page.locator("[data-section=artefact]").count() == 0
    shares.get_by_label("list them too").check()
    assert [line.split(" of ")[0] for line in listed(page, "for")] == ["river: +40 %", "mill: +30 %", "world: +10 %"]


def test_clicking_a_word_marks_its_instances_and_shows_its_score_under_every_method(open_page):
    encoded = encoding("The mill, the mill: the river.")
    signed = explanation(encoded, np.arange(len(encoded)) - 4.0)
    plain = explanation(encoded, np.arange(len(encoded))[::-1] * 1.0, method="rollout", signed=False)
    page = open_page(render_page([signed, plain]))
    word(page, "The").click()
    assert texts(page, ".text .same") == ["The", "the", "the"]
    assert texts(page, "[data-section=scores] tbody tr") == ["AttCAT\t−14 %\t3", "Attention rollout\t20 %\t1"]
    assert "Instance 1 of 3, together" in page.locator("[data-section=instances]").inner_text()
    page.keyboard.press(".")
    assert texts(page, "[data-section=scores] tbody tr")[0].startswith("AttCAT\t0 %\t")
    page.get_by_text("All instances").click()
    page.get_by_role("button", name="word 7", exact=True).click()
    assert page.locator(".card .quiet").first.inner_text() == "word 7 of 9, token position 7"
    page.keyboard.press("Escape")
    assert page.locator(".text .same").count() == 0
    assert page.locator(".card").count() == 0


def test_n_and_p_walk_the_strong_words_in_document_order(open_page):
    encoded = encoding("hello world the old mill river hello world")
    exp = explanation(encoded, [0.0, 0.1, 5.0, 0.2, -4.0, 0.1, 0.3, 0.1, 0.2, 0.0])
    page = open_page(render_page([exp]))
    walked = []
    for key in "nnnp":
        page.keyboard.press(key)
        walked.append(chosen(page))
    assert walked == ["world", "old", "world", "old"]
    assert page.locator(".status").inner_text() == "“old” −40 % of the total, rank 2 of 8, strong word 2 of 2"


def test_a_word_is_found_and_its_instances_are_stepped_through(open_page):
    page = open_page(render_page([explanation(encoding("The old mill.\nThe river. The old MILL is old."))]))
    page.keyboard.press("/")
    page.keyboard.type("old mill")
    assert texts(page, ".text .found") == ["old", "mill", "old", "MILL"]
    assert page.locator(".matches").inner_text() == "2 matches"
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert page.locator(".matches").inner_text() == "2 of 2 matches"
    assert page.locator(".card .quiet").first.inner_text().startswith("word 9 of 13")
    page.locator("[data-control=find]").fill("nowhere")
    assert page.locator(".matches").inner_text() == "no match"


@pytest.mark.parametrize("view", ["text", "compare"])
def test_what_is_typed_right_after_the_find_key_reaches_the_box(open_page, view):
    page = open_page(render_page([explanation(encoding("The old mill."))]), f"#view={view}")
    # No frame is drawn between the two keys, only what is due after the first has been done.
    focused = """async () => {
        document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "/", bubbles: true}));
        await null;
        return document.activeElement.dataset.control;
    }"""
    assert page.evaluate(focused) == "find"


def test_enter_right_after_the_query_counts_as_the_first_match(open_page):
    page = open_page(render_page([explanation(encoding("The old mill.\nThe river. The old MILL is old."))]))
    page.evaluate(
        """async () => {
            const box = document.querySelector("[data-control=find]");
            box.value = "old mill";
            box.dispatchEvent(new InputEvent("input", {bubbles: true}));
            await null;
            box.form.requestSubmit();
        }"""
    )
    assert page.locator(".matches").inner_text() == "1 of 2 matches"


def test_the_switch_shows_another_method_with_its_own_scale_notices_and_checks(open_page):
    encoded = encoding()
    signed = explanation(encoded, checks={"completeness_gap": 0.003})
    plain = explanation(encoded, np.abs(signed.scores), method="rollout", signed=False, checks={"untrained": True})
    page = open_page(render_page([signed, plain]))
    trust = open_fold(page, "trust")
    assert "The scores add up to the explained difference within 0.3 % (completeness gap)." in trust.inner_text()
    assert page.locator(".text .against-8, .text .for-8").count() > 0
    choose(page, "method", "Attention rollout")
    assert page.locator(".text [class^=for], .text [class^=against]").count() == 0
    assert page.locator(".text .plain-8").count() > 0
    assert "random" in page.locator(".notices").inner_text()
    assert texts(page, ".sides h2") == ["Most important for “PL”"]


def test_the_verdict_stands_beside_the_answer_tells_how_and_follows_the_method(open_page):
    encoded = encoding(LONG[:3000])
    shown = [
        checked(explanation(encoded, method="good", checks={"special_share": 0.08}), "yes"),
        checked(explanation(encoded, method="weak", checks={"special_share": 0.71}), "not_shown"),
        checked(explanation(encoded, method="poor", signed=False), "opposite"),
        explanation(encoded, method="unchecked", signed=False),
    ]
    page = open_page(render_page(shown, inside=sample_inside(encoded)))
    verdict = page.locator("[data-section=verdict]")
    box = verdict.bounding_box()
    assert box["y"] + box["height"] < 200
    assert not verdict.locator("p").first.is_visible()
    verdict.locator("summary").click()
    assert texts(page, "[data-section=verdict] p") == list(describe_verdict(shown[0]).all_sentences)
    marks = {}
    for method in ("good", "weak", "poor", "unchecked", "Attention"):
        choose(page, "method", method)
        mark = verdict.locator("summary .mark")
        marks[method] = (mark.inner_text(), mark.locator(".outline").get_attribute("d"))
    assert [words for words, _ in marks.values()] == [
        *("holds up", "not shown, with a warning", "do not trust", "not checked", "not checked")
    ]
    assert len({shape for _, shape in marks.values()}) == 4
    # Attention is not the first explanation: it must not stand under that one's verdict.
    assert "where the model looks" in verdict.inner_text()
    choose(page, "method", "weak")
    assert "Warning: Special tokens such as [CLS] carry 71 %" in verdict.inner_text()
    page.keyboard.press("Escape")
    assert not verdict.locator("p").first.is_visible()
    open_appearance(page)
    choose(page, "compare", "good")
    assert texts(page, "article .mark") == ["not shown, with a warning", "holds up"]


def test_a_phone_shows_the_mark_of_the_verdict(open_page):
    html = render_page([checked(explanation(), "opposite")])
    page = open_page(html, viewport={"width": 390, "height": 800})
    mark = page.locator("[data-section=verdict] summary .mark")
    assert mark.inner_text() == "do not trust"
    assert mark.is_visible()


def test_a_choice_of_layers_says_that_the_verdict_is_of_all_layers(open_page):
    encoded = encoding()
    exp = checked(explanation(encoded, layers=np.ones((2, len(encoded)))), "yes")
    page = open_page(render_page([exp], inside=sample_inside(encoded)))
    page.locator("[data-section=verdict] summary").click()
    assert "all layers together" not in page.locator("[data-section=verdict]").inner_text()
    open_view(page, "Inside the model")
    page.get_by_role("button", name="Layer 1", exact=True).click()
    open_view(page, "Text")
    page.locator("[data-section=verdict] summary").click()
    assert "all layers together" in page.locator("[data-section=verdict]").inner_text()


def test_every_setting_of_the_colours_explains_itself(open_page):
    encoded = encoding("old mill river")
    shown = [explanation(encoded, [0.0, 3e-4, -5e-5, 2e-5, 0.0], target=Target(i, name)) for i, name in enumerate("AB")]
    page = open_page(render_page(shown))
    open_appearance(page)
    for control in ("scale", "range"):
        assert len(page.locator(f"[data-control={control}] .title").get_attribute("title").split()) > 3
    for control in ("gamma", "threshold"):
        assert len(page.locator(f"[data-control={control}]").get_attribute("title").split()) > 5
    page.keyboard.press("Escape")
    open_fold(page, "shares")
    explained = page.locator(".legend .ends [title]")
    assert explained.inner_text() == "% of the total"
    assert "Share of the total of absolute word scores" in explained.get_attribute("title")


def test_explanations_of_several_targets_get_a_switch_and_can_share_their_colours(open_page):
    encoded = encoding("old mill river")
    ai = explanation(encoded, [0.0, 1.0, -0.5, 0.2, 0.0], target=Target(0, "AI"))
    pl = explanation(encoded, [0.0, 10.0, 5.0, -9.0, 0.0], target=Target(1, "PL"))
    page = open_page(render_page([ai, pl]))
    choose(page, "target", "“AI”")
    assert page.locator(".text .for-8").inner_text() == "old"
    open_appearance(page)
    choose(page, "range", "all classes and layers")
    assert page.locator(".text .for-8").count() == 0
    choose(page, "target", "“PL”")
    page.keyboard.press("Escape")
    open_fold(page, "about")
    assert page.locator(".target").inner_text() == "Explained: the log-odds of 'PL' (the logarithm of p/(1 − p))."
    assert page.locator(".text .for-8").inner_text() == "old"


def test_filters_threshold_and_scale_change_what_is_coloured(open_page):
    encoded = encoding("the river, miller hello!")
    page = open_page(render_page([explanation(encoded, np.linspace(1, 2, len(encoded)))]))
    assert page.locator(".text [data-special]").first.is_hidden()
    open_appearance(page)
    page.get_by_label("stop words", exact=True).check()
    page.get_by_label("punctuation", exact=True).check()
    assert page.locator(".status").inner_text().endswith("of 3.")
    page.get_by_label("special tokens").uncheck()
    assert page.locator(".text [data-special]").first.is_visible()
    page.get_by_label("special tokens").check()
    page.get_by_label("Minimum score").fill("90")  # of miller, which is two tokens
    assert texts(page, ".text [class^=for]") == ["miller"]
    page.get_by_label("Minimum score").fill("0")
    choose(page, "scale", "by rank")
    assert page.locator(".text .for-8").inner_text() == "miller"
    assert page.locator("[data-control=gamma]").count() == 0


def test_prediction_target_truncation_and_classes_are_reported(open_page):
    exp = explanation(
        encoding(LONG[:2000], max_tokens=60),
        prediction=prediction(("AI", "PL", "other")),
        target=Target(0, "AI", 1, "PL"),
    )
    page = open_page(render_page([exp]))
    assert len(texts(page, ".classes li")) == 3
    assert page.locator(".classes .first").last.inner_text().strip() == "other"
    open_fold(page, "about")
    assert page.locator(".target").inner_text() == "Explained: the log-odds of 'AI' against 'PL'."
    assert f"{exp.encoding.dropped:,} more were cut off" in page.locator(".notices").inner_text()
    unread = page.evaluate("[...document.querySelectorAll('.unread')].map(part => part.textContent).join('')")
    assert unread == LONG[:2000][exp.encoding.offsets[:, 1].max() :]


def test_every_paragraph_finds_its_own_direction(open_page):
    page = open_page(render_page([explanation(encoding("שלום עולם\nhello world"))]))
    directions = page.locator(".text p").evaluate_all("all => all.map(p => getComputedStyle(p).direction)")
    assert directions == ["rtl", "ltr"]


def test_the_state_is_in_the_address_and_comes_back_from_it(open_page):
    encoded = encoding()
    html = render_page([explanation(encoded), explanation(encoded, method="rollout")])
    page = open_page(html)
    choose(page, "method", "Attention rollout")
    choose(page, "level", "tokens")
    page.locator(".text .unit").get_by_text("past", exact=True).or_(page.locator(".text .unit").nth(3)).first.click()
    address = page.evaluate("location.hash")
    assert "method=rollout" in address
    again = open_page(html, address)
    assert again.locator("[data-control=method]").input_value() == "rollout"
    assert again.locator(".card h2").inner_text() == page.locator(".card h2").inner_text()
    assert again.locator(".text .unit").count() == page.locator(".text .unit").count()
    again.evaluate("location.hash = 'method=nothing&level=sentence&unit=9999'")
    wait_until(again, "document.querySelector('[data-control=level]').value === 'sentence'")
    assert again.locator("[data-control=method]").input_value() == "attcat"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stay_readable_in_both_themes(open_page, scheme):
    page = open_page(render_page([explanation()]), color_scheme=scheme)

    def grounds() -> list[list[str]]:
        return page.locator(".text .unit").evaluate_all(
            "all => all.map(span => [getComputedStyle(span).color, getComputedStyle(span).backgroundColor])"
        )

    def as_hex(rgb: str) -> str:
        return "#" + "".join(f"{int(part):02x}" for part in rgb.strip("rgb()").split(","))

    before = grounds()
    page.locator(".theme").click()
    after = grounds()
    assert before != after
    for ink, ground in before + after:
        if ground != "rgba(0, 0, 0, 0)":
            assert colours.contrast(as_hex(ink), as_hex(ground)) >= 4.5


def test_controls_can_be_reached_and_used_by_keyboard_alone(open_page):
    encoded = encoding()
    page = open_page(
        render_page([explanation(encoded), explanation(encoded, method="rollout")], inside=sample_inside(encoded))
    )
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the document"
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert chosen(page) == "river"
    page.keyboard.press("ArrowLeft")
    assert page.locator(".status").inner_text().startswith("“The”")
    page.wait_for_selector(".partners[data-direction=attended] li")
    assert page.locator(".partners[data-direction=attended] li").count() == 3
    page.keyboard.press("2")
    assert page.locator("[data-control=method]").input_value() == "rollout"
    for view in page.locator("nav.tabs button").all():
        view.press("Enter")
        unnamed = page.evaluate(
            "[...document.querySelectorAll('button, input, select, canvas:not([aria-hidden]), [role=img]')]"
            ".filter(one => !one.textContent && !one.labels?.length && !one.ariaLabel).map(one => one.outerHTML)"
        )
        assert unnamed == []


def test_a_phone_shows_the_text_the_lists_and_the_clicked_word(open_page):
    encoded = encoding(LONG[:3000])
    html = render_page([explanation(encoded)], inside=sample_inside(encoded))
    page = open_page(html, viewport={"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not page.locator(".details").is_visible()
    page.locator("[data-control=strongest]").click()
    assert page.locator("[data-side=for]").is_visible()
    page.locator("[data-control=strongest]").click()
    choose(page, "level", "tokens")
    page.keyboard.press("n")
    page.keyboard.press("n")
    box = page.locator(".details").bounding_box()
    assert box["x"] >= 0
    assert box["y"] > 300
    assert box["y"] + box["height"] <= 801
    assert page.locator(".text .chosen").bounding_box()["y"] < box["y"]
    open_view(page, "Inside")
    assert page.locator(".thumbnail").first.is_visible()


def test_it_prints_the_whole_text_without_controls(open_page):
    page = open_page(render_page([explanation(encoding(LONG[:8000]))]))
    page.emulate_media(media="print")
    whole = page.evaluate("[document.querySelector('.text').scrollHeight, document.documentElement.scrollHeight]")
    assert whole[1] >= whole[0] > 1500
    for hidden in (".strip", ".tabs", "[data-control=level]", ".details details"):
        assert not page.locator(hidden).first.is_visible()
    for shown in (".sentence", ".badge .mark", ".origin", "[data-side=for]"):
        assert page.locator(shown).first.is_visible()
    assert page.locator(".sentence").bounding_box()["y"] < page.locator(".text").bounding_box()["y"]
    origin = page.locator(".origin").inner_text()
    assert "Sightline " in origin
    assert "AttCAT" in origin


def test_a_report_of_4096_tokens_opens_and_answers_quickly(open_page, record_property):
    encoded = encoding(LONG, max_tokens=4096)
    generator = np.random.default_rng(0)
    explanations = [
        explanation(encoded, generator.standard_t(2, len(encoded)), method=f"method {number}") for number in range(5)
    ]
    page = open_page(render_page(explanations, inside=long_inside(len(encoded))))
    opened = page.evaluate("performance.getEntriesByName('sightline:open').map(one => one.startTime + one.duration)[0]")
    durations: dict[str, float] = {}

    def measured(name: str, *acts, again=None) -> None:
        """Note the shortest time: the machine may be busy with something else, the page cannot be faster than it is."""
        times = []
        for act in acts * 2:
            if times and again:
                again()
                settle(page)
            count = page.evaluate("performance.getEntriesByName('sightline:change').length")
            act()
            wait_until(page, f"performance.getEntriesByName('sightline:change').length > {count}")
            times.append(page.evaluate("performance.getEntriesByName('sightline:change').at(-1).duration"))
            settle(page)
        durations[name] = min(times)

    def press(name: str) -> None:
        page.get_by_role("button", name=name, exact=True).click()

    def level(name: str):
        return lambda: choose(page, "level", f"{name}s")

    words, gamma = page.locator(".text .unit"), page.locator("[data-control=gamma] input")
    measured("method", lambda: choose(page, "method", "method 3"), lambda: choose(page, "method", "method 2"))
    measured("click", lambda: words.nth(30).click(), lambda: words.nth(45).click())
    levels = ["word", "token", "sentence", "paragraph", "word", "sentence", "token", "word"]
    for before, after in itertools.pairwise(levels):
        # There and back in between, so that every time is of the same change.
        measured(f"{before} to {after}", level(after), again=level(before))
    open_appearance(page)  # a click into the text closes it
    measured("gamma", lambda: gamma.press("End"), lambda: gamma.press("Home"))
    measured("filter", page.get_by_label("punctuation", exact=True).click)
    measured("specials", page.get_by_label("special tokens").click)
    measured("peak", page.locator("[data-control=next]").click)
    for view in ("Inside the model", "Compare methods"):
        there, back = (lambda to=view: press(to)), (lambda: press("Text"))
        measured(f"to {view}", there, again=back)
        measured(f"back from {view}", back, again=there)
    press("Inside the model")
    measured("layer", lambda: press("Layer 2"), lambda: press("Layer 3"))
    press("Text")
    open_appearance(page)
    beside = page.locator("[data-control=compare]")
    measured("side by side", lambda: beside.select_option("method 4"), again=lambda: beside.select_option(""))
    measured("two: word to token", level("token"), again=level("word"))
    measured("two: token to word", level("word"), again=level("token"))
    record_property("open_ms", opened)
    record_property("change_ms", durations)
    logging.info("4,096 tokens: open %.0f ms; %s", opened, {name: round(took) for name, took in durations.items()})
    # Times are recorded, not judged (1 s and 100 ms on an idle machine): asserted is that every change was drawn.
    assert opened > 0
    assert len(durations) == 21
    assert min(durations.values()) > 0


def test_a_document_of_sixteen_thousand_tokens_opens_and_recolours(open_page):
    encoded = encoding(LONG)
    assert len(encoded) > 16_000
    exp = explanation(encoded)
    page = open_page(render_page([exp]))
    assert page.locator(".text .unit:not([data-special])").count() == len(exp.words())
    before = page.locator(".text [class^=for]").count()
    open_appearance(page)
    page.locator("[data-control=gamma] input").press("End")
    assert page.locator(".text [class^=for]").count() > before
    page.keyboard.press("n")
    assert page.locator(".text .chosen").count() == 1
