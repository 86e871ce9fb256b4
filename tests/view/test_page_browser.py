"""The page as a person meets it: drawn by a real browser, clicked, steered by keys, attacked by its own document."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.models.target import Prediction, Target
from sightline.view import colours
from sightline.view.page import render_page
from tests.sample_explanations import encoding, explanation, prediction

pytestmark = pytest.mark.browser

DRAWN_TEXT = "[...document.querySelectorAll('#document .text')].map(block => block.textContent)"
HOSTILE = (
    "hello <script>window.hacked = 1</script> <img src=x onerror='window.hacked = 2'> </script><script>alert(1)"
    "</script>\n<!-- <style>*{display:none}</style> --> &lt;b&gt; ]]> ${window.hacked = 3} \\u003c javascript:alert(2) "
    "\u2028 mill <svg/onload=alert(3)>"
)
LONG = "\n\n".join(f"The old mill {i} runs, hello river world {i * 7}; the miller is old." for i in range(1200))


def texts(page, selector: str) -> list[str]:
    return [text.replace("\n", "") for text in page.locator(selector).all_inner_texts()]


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
    for level in ("words", "tokens"):
        page.locator("#levels").get_by_text(level).click()
        assert page.evaluate(DRAWN_TEXT) == [text, "hello " + text]
    coloured = "".join(page.locator("#document span").all_text_contents())
    assert len(coloured) > 0.5 * len("".join((text * 2).split()))


def test_a_hostile_document_label_or_title_never_becomes_an_element(open_page):
    evil = Prediction(0, HOSTILE, 0.5, (HOSTILE, "<b>"), np.zeros(2), np.full(2, 0.5))
    exp = explanation(
        encoding(HOSTILE),
        method="<i>m</i>",
        prediction=evil,
        target=Target(0, HOSTILE),
        checks={"<u>check</u>": "<img src=x onerror=alert(4)>"},
        options={"<s>": HOSTILE},
        provenance={"model": "</script><script>window.hacked = 5</script>"},
    )
    page = open_page(render_page([exp, exp], title=HOSTILE))
    page.keyboard.press("n")
    page.locator("#document span").first.click()
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.scripts.length") == 2
    foreign = page.evaluate("document.querySelectorAll('img, svg, b:not(#tip b), u, s, style:not(head style)').length")
    assert foreign == 0
    assert page.evaluate("document.title").startswith("hello <script>")


def test_the_policy_stops_injected_scripts_and_requests(browser, tmp_path):
    explanation().to_html(tmp_path / "page.html")
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    blocked = page.evaluate(
        """async () => {
            const seen = [];
            document.addEventListener('securitypolicyviolation', (event) => seen.push(event.effectiveDirective));
            const script = document.createElement('script');
            script.textContent = 'window.hacked = 1';
            document.body.append(script);
            const image = document.createElement('img');
            image.src = 'https://example.org/x.png';
            document.body.append(image);
            await new Promise((done) => setTimeout(done, 200));
            return [window.hacked ?? null, seen.sort()];
        }"""
    )
    page.close()
    assert blocked == [None, ["img-src", "script-src-elem"]]


def test_words_are_coloured_as_the_python_scale_says(open_page):
    encoded = encoding(LONG[:6000])
    scores = np.random.default_rng(3).standard_t(2, len(encoded)) ** 3
    exp = explanation(encoded, scores)
    page = open_page(render_page([exp]))
    drawn = page.evaluate("[...document.querySelectorAll('#document span')].map(span => span.className)")
    rounded = [float(f"{word.score:.6g}") for word in exp.words()]
    expected = [
        f"{'for' if level > 0 else 'against'}-{abs(level)}" if level else "" for level in colours.levels(rounded)
    ]
    assert drawn == expected
    strongest = page.locator(f"#document .for-{colours.LEVELS}").first
    background = strongest.evaluate("span => getComputedStyle(span).backgroundColor")
    red, green, blue = (int(colours.steps("for")[-1][i : i + 2], 16) for i in (1, 3, 5))
    assert background == f"rgb({red}, {green}, {blue})"


def test_hovering_shows_score_rank_and_position(open_page):
    exp = explanation(encoding("hello world the old mill"), [9.0, 0.5, -0.5, 2.0, 0.0, -3.0, -9.0])
    page = open_page(render_page([exp]))
    assert not page.locator("#tip").is_visible()
    page.get_by_text("mill", exact=True).last.hover()
    assert page.locator("#tip").inner_text().split("\n") == [
        "mill",
        "−3 against “PL”",
        "rank 1 of 5, 50 % of the total",
        "word 5, token position 5",
    ]


def test_the_tables_list_top_words_for_and_against_with_repeats_added_up(open_page):
    exp = explanation(encoding("The mill the MILL old"), [0.0, 1.0, -2.0, 1.0, -5.0, 1.5, 0.0])
    page = open_page(render_page([exp]))
    assert texts(page, "#tops caption") == ["For “PL”", "Against “PL”"]
    assert texts(page, "#tops table:nth-child(1) tr") == ["The× 2\t+2", "old\t+1.5"]
    assert texts(page, "#tops table:nth-child(2) tr") == ["mill× 2\t−7"]
    page.get_by_text("add up repeats").click()
    assert texts(page, "#tops table:nth-child(2) tr") == ["MILL\t−5", "mill\t−2"]


def test_clicking_a_word_marks_all_its_instances_and_escape_clears(open_page):
    page = open_page(render_page([explanation(encoding("The mill, the mill: the river."))]))
    page.locator("#document span", has_text="The").first.click()
    assert texts(page, "#document .same") == ["The", "the", "the"]
    assert "“The” 1 of 3" in page.locator("#status").inner_text()
    page.keyboard.press("n")
    assert page.evaluate("document.querySelector('.now').textContent") == "the"
    page.keyboard.press("Escape")
    assert page.locator("#document .same").count() == 0
    page.locator("#tops button").first.click()
    assert page.locator("#document .same").count() > 0


def test_n_and_p_walk_the_peaks_in_document_order(open_page):
    encoded = encoding("hello world the old mill river hello world")
    exp = explanation(encoded, [0.0, 0.1, 5.0, 0.2, -4.0, 0.1, 0.3, 0.1, 0.2, 0.0])
    page = open_page(render_page([exp]))
    walked = []
    for key in "nnnp":
        page.keyboard.press(key)
        walked.append(page.evaluate("document.querySelector('.now').textContent"))
    assert walked == ["world", "old", "world", "old"]
    assert page.locator("#status").inner_text() == "Peak 2 of 2: “old” −4"


def test_the_switch_shows_another_method_with_its_own_scale_notices_and_checks(open_page):
    encoded = encoding()
    signed = explanation(encoded, checks={"completeness_gap": 0.003})
    plain = explanation(encoded, np.abs(signed.scores), method="rollout", signed=False, checks={"untrained": True})
    page = open_page(render_page([signed, plain]))
    assert texts(page, "#checks li") == ["The completeness gap is 0.3 %."]
    assert page.locator("#document .against-8, #document .for-8").count() > 0
    page.get_by_text("rollout", exact=True).click()
    assert page.locator("#document [class^=for], #document [class^=against]").count() == 0
    assert page.locator("#document .plain-8").count() > 0
    assert "random" in page.locator("#notices").inner_text()
    assert texts(page, "#tops caption") == ["Matter most for “PL”"]


def test_prediction_target_truncation_and_classes_are_said(open_page):
    exp = explanation(
        encoding(LONG[:2000], max_tokens=60),
        prediction=prediction(("AI", "PL", "other")),
        target=Target(0, "AI", 1, "PL"),
    )
    page = open_page(render_page([exp]))
    assert page.locator("#said").inner_text().startswith("other")
    assert len(texts(page, "#classes li")) == 3
    assert page.locator("#target").inner_text() == "Explained here: the logit of 'AI' minus 'PL'."
    assert f"{exp.encoding.dropped:,} more were cut off" in page.locator("#notices").inner_text()
    unread = page.evaluate("[...document.querySelectorAll('.unread')].map(part => part.textContent).join('')")
    assert unread == LONG[:2000][exp.encoding.offsets[:, 1].max() :]


def test_every_paragraph_finds_its_own_direction(open_page):
    page = open_page(render_page([explanation(encoding("שלום עולם\nhello world"))]))
    directions = page.locator("#document p").evaluate_all("all => all.map(p => getComputedStyle(p).direction)")
    assert directions == ["rtl", "ltr"]


def test_words_stay_readable_in_both_themes(open_page):
    html = render_page([explanation()])
    for scheme in ("light", "dark"):
        page = open_page(html, color_scheme=scheme)
        pairs = page.locator("#document span").evaluate_all(
            "all => all.map(span => [getComputedStyle(span).color, getComputedStyle(span).backgroundColor])"
        )
        for ink, ground in pairs:
            if ground != "rgba(0, 0, 0, 0)":
                assert colours.contrast(as_hex(ink), as_hex(ground)) >= 4.5


def as_hex(rgb: str) -> str:
    return "#" + "".join(f"{int(part):02x}" for part in rgb.strip("rgb()").split(","))


def test_a_document_of_sixteen_thousand_tokens_opens_and_recolours(open_page):
    encoded = encoding(LONG)
    assert len(encoded) > 16_000
    page = open_page(render_page([explanation(encoded)]))
    assert page.locator("#document span").count() == len(explanation(encoded).words())
    before = page.evaluate("document.querySelectorAll('#document [class^=for]').length")
    page.locator("#gamma").focus()
    page.keyboard.press("End")
    after = page.evaluate("document.querySelectorAll('#document [class^=for]').length")
    assert after > before


def test_controls_can_be_reached_and_used_by_keyboard_alone(open_page):
    encoded = encoding()
    page = open_page(render_page([explanation(encoded), explanation(encoded, method="rollout")]))
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the document"
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.querySelector('#methods :checked + span').textContent") == "rollout"
    unnamed = page.evaluate(
        "[...document.querySelectorAll('button, input, canvas:not([aria-hidden])')]"
        ".filter(control => !control.textContent && !control.labels?.length && !control.ariaLabel).length"
    )
    assert unnamed == 0
