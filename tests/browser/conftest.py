"""One `laminar dev` and one Chromium for all browser tests; a test that fails leaves a picture of its page."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from playwright.sync_api import Browser, Page, sync_playwright

from assets.generator import generate
from tests.browser.chromium import arguments, find_chromium
from tests.browser.interface import SIZE, WAIT, Interface
from tests.browser.served import ROOT, Served, copied, served
from tests.machine import CHROMIUM

BROKEN = """
CREATE SOURCE refunds (refund_id BIGINT, amount BIGINT, event_time TIMESTAMP)
WITH (connector = 'delta', path = 'data/landing/refunds', changes = 'cdf');

CREATE MATERIALIZED VIEW refunds_in_all AS
SELECT refund_id, SUM(amount) AS amount FROM refunds GROUP BY refund_id EMIT CHANGES WITH (group = 'finance');
"""
# On tiny data a JVM that compiles lightly is the quicker one.
SPARK_FOR_TESTS = {
    "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "LAMINAR_SHUFFLE_PARTITIONS": "1",
}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A page is still open when its test has failed: there is a picture of it, and the report says where."""
    report = yield
    page: Page | None = getattr(item, "funcargs", {}).get("page")
    if report.when == "call" and report.failed and page is not None:
        where = pictures() / f"failed-{re.sub(r'[^a-z0-9_]+', '-', item.name)}.png"
        page.screenshot(path=where)
        report.sections.append(("screenshot", f"{where} of {page.url}"))
    return report


def pictures() -> Path:
    """LAMINAR_SCREENSHOTS, else `.laminar/screenshots`."""
    folder = Path(os.environ.get("LAMINAR_SCREENSHOTS") or ROOT / ".laminar" / "screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def refunds_without_a_feed(landing: Path) -> None:
    """A table whose owner forgot the change feed that its source asks for."""
    schema = pa.schema([("refund_id", pa.int64()), ("amount", pa.int64()), ("event_time", pa.timestamp("us", "UTC"))])
    write_deltalake(landing / "refunds", schema.empty_table())


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The demo with its first events, a view that cannot run, and no patience with late rows."""
    CHROMIUM.require()
    root = copied(tmp_path_factory.mktemp("shop"))
    generate(root / "data" / "landing")
    refunds_without_a_feed(root / "data" / "landing")
    (root / "assets" / "sql" / "refunds_in_all.sql").write_text(BROKEN)
    definitions = root / "assets" / "definitions.py"
    strict = definitions.read_text().replace('Check(max=0.05, severity="warn")', "Check(max=0.0001)")
    assert "0.0001" in strict
    definitions.write_text(strict)
    with served(root, output=root / "dev.txt", **SPARK_FOR_TESTS) as shop:
        yield shop


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    CHROMIUM.require()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=arguments())
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    page = chromium.new_page(viewport=SIZE, timezone_id="UTC")
    page.set_default_timeout(WAIT)
    yield page
    page.close()


@pytest.fixture
def interface(shop: Served, page: Page) -> Interface:
    return Interface(shop, page, pictures())
