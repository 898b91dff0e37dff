"""The page of `result.explain()` in a real browser, opened from the disk with the network off."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hostile import LONG, MARKUP

KEYS = {"slash": "/", "escape": "\ue00c"}
THEMES = ("light", "dark")
CONTRAST_MIN = 4.5
"""WCAG 2 AA for text of ordinary size."""
CONTRAST = """
const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
const luminance = (colour) => {
  const [r, g, b] = colour.map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (element) => {
  if (!element) return [255, 255, 255];
  const [r, g, b, alpha = 1] = numbers(getComputedStyle(element).backgroundColor);
  const below = alpha === 1 ? [0, 0, 0] : ground(element.parentElement);
  return [r, g, b].map((value, at) => value * alpha + below[at] * (1 - alpha));
};
return [...document.querySelectorAll("h1,h2,h3,p,a,th,td,mark,summary,kbd,label,output")].map((element) => {
  const [a, b] = [luminance(numbers(getComputedStyle(element).color)), luminance(ground(element))];
  return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), element.outerHTML.slice(0, 80)];
});
"""


@pytest.fixture(autouse=True)
def fresh(browser, page):
    browser.get("about:blank")
    browser.get(page.as_uri())


def css(browser, selector):
    return browser.find_elements("css selector", selector)


def press(browser, keys):
    browser.switch_to.active_element.send_keys(keys)


def visible_hits(browser):
    return [hit.get_attribute("data-rank") for hit in css(browser, ".hits > li") if hit.is_displayed()]


def test_it_opens_without_a_console_message_and_asks_for_nothing(browser, page):
    assert browser.title == "umi: who works at <b>Acme</b>?"
    assert browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"}
    asked = {url for url in asked if not url.startswith(("chrome:", "data:"))}  # the browser's first tab
    assert asked <= {page.as_uri(), "about:blank"}


def test_hostile_texts_show_as_text(browser):
    assert browser.title.startswith("umi:")  # no script of theirs ran
    assert len(css(browser, "script")) == 1
    assert not css(browser, "main img, main b > b, main i:not(.umi-bar > i), main u, main s")
    shown = css(browser, "#hit-2 .text")[0].text
    assert shown == MARKUP
    assert "⟨U+202E⟩emca" in css(browser, "#hit-3 .text")[0].text
    assert "⟨U+001B⟩[31m" in css(browser, "#hit-3 .text")[0].text


def test_a_script_that_got_in_would_not_run(browser):
    browser.execute_script(
        "const script = document.createElement('script'); script.textContent = \"document.title = 'owned'\";"
        "document.body.append(script)"
    )
    assert browser.title.startswith("umi:")
    browser.get_log("browser")  # the policy's refusal


def test_a_line_of_100_kb_is_cut_and_can_be_opened_by_keyboard(browser):
    cut = css(browser, "#hit-4 .text")[0]
    assert len(cut.text) < 1_000
    assert "Acme" in cut.text  # cut around the word that was asked for
    summary = css(browser, "#hit-4 .whole summary")[0]
    assert summary.text == "Whole text, 100,006 characters"
    summary.send_keys("\ue007")
    whole = css(browser, "#hit-4 .whole .text")[0]
    assert whole.is_displayed()
    assert whole.get_attribute("textContent") == LONG


def test_the_filter_works_by_keyboard_alone(browser):
    press(browser, KEYS["slash"])
    assert browser.switch_to.active_element.get_attribute("id") == "filter"
    press(browser, "priya acme")
    assert visible_hits(browser) == ["1"]
    assert css(browser, "#shown")[0].text == "1 of 4"
    assert "off" in css(browser, ".flow g[data-rank='2']")[0].get_attribute("class")
    press(browser, KEYS["escape"])
    assert visible_hits(browser) == ["1", "2", "3", "4"]


def test_j_and_k_step_through_the_hits_that_are_shown_and_light_their_lines(browser):
    press(browser, "j")
    press(browser, "j")
    assert browser.switch_to.active_element.get_attribute("href").endswith("#hit-2")
    assert "on" in css(browser, ".flow g[data-rank='2']")[0].get_attribute("class").split()
    press(browser, "k")
    assert browser.switch_to.active_element.get_attribute("href").endswith("#hit-1")


def test_everything_that_can_be_used_is_reached_by_tab_and_has_a_name(browser):
    reached = set()
    for _ in range(60):
        press(browser, "\ue004")
        element = browser.switch_to.active_element
        if element.tag_name == "body":
            break
        assert element.accessible_name, element.get_attribute("outerHTML")[:100]
        reached.add(element.tag_name)
    assert {"a", "input", "summary", "div"} <= reached


def test_headings_step_down_one_by_one_and_ids_are_unique(browser):
    levels = [int(heading.tag_name[1]) for heading in css(browser, "h1,h2,h3")]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    ids = [element.get_attribute("id") for element in css(browser, "[id]")]
    assert len(ids) == len(set(ids))


@pytest.fixture(params=["page", "cell"])
def shown(request, browser):
    """The page, and the same result in a notebook."""
    browser.get(request.getfixturevalue(request.param).as_uri())
    return request.param


@pytest.mark.parametrize("theme", THEMES)
def test_every_text_stands_out_from_its_ground(browser, shown, theme):
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    )
    found = browser.execute_script(CONTRAST)
    assert len(found) > 20
    assert not [(round(ratio, 2), html) for ratio, html in found if ratio < CONTRAST_MIN]
    luminance = browser.execute_script(
        "return getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)[0]"
    )
    assert (luminance > 127) == (theme == "light")


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_window(browser, shown, width):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    for summary in css(browser, "summary"):
        browser.execute_script("arguments[0].parentElement.open = true", summary)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    boxes = browser.execute_script(
        "return [...document.querySelectorAll('.umi td, .hits li')].map((box) => box.getBoundingClientRect().right)"
    )
    assert max(boxes) <= width


def test_hostile_texts_show_as_text_in_a_notebook_too(browser, cell):
    browser.get(cell.as_uri())
    assert browser.title == "notebook"  # no script of theirs ran
    assert not css(browser, "script, img, u, s, td b > b")
    assert MARKUP in css(browser, ".umi")[0].text
    assert "⟨U+202E⟩emca" in css(browser, ".umi")[0].text
    assert [mark.text for mark in css(browser, "tr:nth-child(1) mark")] == ["Acme"]
