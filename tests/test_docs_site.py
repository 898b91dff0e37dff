"""The documentation site builds strictly and offline, names every public name, and opens from the disk in a browser."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from pages.conftest import browser  # noqa: F401 - a fixture

from umi_common import UmiConfig

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
PINNED = json.loads((ROOT / "tests" / "golden" / "public_names.json").read_text())
MODULES = (
    "umi_common.evaluation",
    "umi_common.files",
    "umi_common.filters",
    "umi_common.ingest",
    "umi_common.migrate",
    "umi_common.sim",
    "umi_common.stores.qdrant",
    "umi_common.tenants",
)
"""Whose `__all__` is public beside the pinned names."""
GROUNDS = {"light": "#ffffff", "dark": "#1e2129"}
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")
ENTRY = re.compile(r"^::: (\S+)$", re.MULTILINE)

sys.path.insert(0, str(DOCS / "tools"))


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site as `make docs` builds it: broken links and anchors, and pages outside the navigation, end the build.

    Not with --quiet, which keeps warnings from --strict as well.
    """
    pytest.importorskip("mkdocs", reason="needs the docs extra")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stdout + built.stderr
    return out


def public_names() -> list[str]:
    names = [f"{package}.{name}" for package, names in PINNED.items() for name in names]
    return names + [f"{module}.{name}" for module in MODULES for name in importlib.import_module(module).__all__]


def entries() -> set[str]:
    return {name for page in (DOCS / "reference").glob("*.md") for name in ENTRY.findall(page.read_text())}


def test_every_public_name_has_an_entry_in_the_reference():
    assert sorted(set(public_names()) - entries()) == []


def test_no_entry_of_the_reference_is_of_something_that_is_gone():
    def found(path: str) -> bool:
        module, _, name = path.rpartition(".")
        try:
            return hasattr(importlib.import_module(module), name)
        except ModuleNotFoundError:
            return False

    assert [path for path in sorted(entries()) if not found(path)] == []


@pytest.mark.parametrize("path", public_names())
def test_the_public_name_and_its_public_methods_say_what_they_do(path):
    module, _, name = path.rpartition(".")
    thing = getattr(importlib.import_module(module), name)
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        return  # constants and aliases are explained in the source, beside their value
    says = thing.__doc__ or ""
    assert says and not says.startswith(f"{name}("), path  # what dataclasses put there where nobody did
    own = vars(thing).items() if inspect.isclass(thing) else ()
    methods = {
        key: value
        for key, value in own
        if not key.startswith("_")
        and isinstance(value, (staticmethod, classmethod, property)) | inspect.isfunction(value)
    }
    assert [key for key in methods if not inspect.getdoc(getattr(thing, key))] == []


def test_every_section_of_the_settings_has_an_entry_in_the_reference():
    page = (DOCS / "reference" / "settings.md").read_text()
    sections = [type(section).__name__ for section in vars(UmiConfig()).values()]
    assert [name for name in sections if f"- {name}\n" not in page] == []


def test_every_page_of_the_reference_shows_what_it_names(site):
    for page in (DOCS / "reference").glob("*.md"):
        html = (site / "reference" / f"{page.stem}.html").read_text()
        named = [name for name in ENTRY.findall(page.read_text()) if name not in sys.modules]  # modules: their members
        assert [name for name in named if f'id="{name}"' not in html] == [], page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_the_page_leads_to_a_file_where_code_is_hosted(page):
    links = LINK.findall(page.read_text())
    assert [link for link in links if not (page.parent / unquote(link)).exists()] == []


def test_the_first_page_is_the_readme_with_links_that_work_in_the_site():
    from hooks import home, on_page_markdown

    code, raw = (
        "https://github.com/umi-retrieval/umi/blob/main",
        "https://raw.githubusercontent.com/umi-retrieval/umi/main",
    )
    assert home(f"[a]({code}/docs/filters.md) `docs/b` ![c]({raw}/docs/pictures/c.svg) [d]({code}/LICENSE)") == (
        f"[a](filters.md) `docs/b` ![c](pictures/c.svg) [d]({code}/LICENSE)"
    )

    class Page:
        class file:
            src_uri = "concepts/pipeline.md"

    assert on_page_markdown("[up](../../README.md#why)", Page, None, None) == "[up](../index.md#why)"


class Loaded(HTMLParser):
    """What a page makes the browser fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        key = "href" if tag == "link" and given.get("rel") != "canonical" else "src"
        if given.get(key) and tag in ("link", "script", "img", "iframe", "source", "video"):
            self.addresses.append(given[key] or "")


def test_no_page_loads_anything_from_elsewhere(site):
    for page in sorted(site.rglob("*.html")):
        loaded = Loaded()
        loaded.feed(page.read_text())
        assert [address for address in loaded.addresses if re.match(r"(\w+:)?//", address)] == [], page.name


def test_no_page_shows_markdown_that_was_not_understood(site):
    raw = re.compile(r"\n(?:[-*] |\d+\. |\||```)|\]\(")
    for page in sorted(site.rglob("*.html")):
        article = re.search(r"<article.*?</article>", page.read_text(), re.DOTALL)
        prose = re.sub(r"<pre.*?</pre>|<code>.*?</code>", "", article[0] if article else "", flags=re.DOTALL)
        assert raw.search(prose) is None, page.name


def test_the_pictures_show_what_the_software_does():
    """`python docs/tools/pictures.py` draws them anew."""
    from pictures import FOLDER, PICTURES

    outdated = [name for name, draw in PICTURES.items() if (FOLDER / f"{name}.svg").read_text() != draw()]
    assert outdated == []


def test_the_pictures_are_legible_on_a_light_and_on_a_dark_page():
    from svg import FILLS, LINE

    for name, (ground, ink) in FILLS.items():
        assert contrast(ground, ink) >= 6, name  # WCAG asks 4.5 of text
    for name, ground in GROUNDS.items():
        assert contrast(LINE, ground) >= 3, name  # and 3 of lines


def contrast(first: str, second: str) -> float:
    """Of two colours, as WCAG 2 defines it: 1..21."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    lighter, darker = sorted((luminance(first), luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_site_opens_from_the_disk_without_a_network(browser, site, scheme, width):  # noqa: F811
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get((site / "index.html").as_uri())
    browser.execute_script("localStorage.clear()")  # a visitor's choice would outlast the test before
    for name in ("index", "filters", "concepts/pipeline", "reference/core"):
        browser.get((site / f"{name}.html").as_uri())
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width, name
    ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
    assert [entry["message"] for entry in browser.get_log("browser")] == []


def test_the_search_of_a_site_on_the_disk_finds_a_page(browser, site):  # noqa: F811
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    metrics = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get((site / "index.html").as_uri())
    field = browser.find_element(By.CSS_SELECTOR, "input.md-search__input")
    field.click()
    field.send_keys("StoreLocked")
    results = ".md-search-result__item"
    WebDriverWait(browser, 15).until(lambda opened: opened.find_elements(By.CSS_SELECTOR, results))
    found = [item.get_attribute("href") for item in browser.find_elements(By.CSS_SELECTOR, f"{results} a")]
    assert any("reference/errors.html" in link for link in found), found
