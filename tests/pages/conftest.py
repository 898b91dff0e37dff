"""A browser without network, where this machine has one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A headless Chromium driven by Debian's chromedriver; skips with what to install."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium: it is in the dev extra")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("needs a browser and its driver on the PATH: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    opened.execute_cdp_cmd("Network.enable", {})
    opened.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    yield opened
    opened.quit()


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory) -> Path:
    """The hostile result's page on the disk, open in the browser."""
    from hostile import hostile_result

    path = tmp_path_factory.mktemp("page") / "why.html"
    hostile_result().explain(path)
    browser.get(path.as_uri())
    return path


NOTEBOOK = (
    "<!doctype html><meta charset='utf-8'><title>notebook</title><meta name='color-scheme' content='light dark'>"
    "<meta name='viewport' content='width=device-width'><body style='background:Canvas;color:CanvasText'>"
)
"""Around a cell's output: a notebook's own colours."""


@pytest.fixture(scope="module")
def cell(tmp_path_factory) -> Path:
    """The hostile result as a notebook shows it."""
    from hostile import hostile_result

    path = tmp_path_factory.mktemp("cell") / "notebook.html"
    path.write_text(NOTEBOOK + hostile_result()._repr_html_(), encoding="utf-8")
    return path
