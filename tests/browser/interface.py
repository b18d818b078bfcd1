"""Dagster's pages as its users see them: what is clicked to tick, to backfill, to fold back, to turn something on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, ViewportSize, expect

from tests.browser.served import SECONDS_TO_RUN, Served, until

SECONDS_TO_LAUNCH = 60.0
WAIT = 60_000  # milliseconds, for what a page has to show
SIZE = ViewportSize(width=1280, height=800)


@dataclass(frozen=True)
class Interface:
    shop: Served
    page: Page
    pictures: Path

    def open(self, path: str) -> None:
        self.page.goto(f"{self.shop.url}{path}")

    def button(self, text: str) -> Locator:
        return self.page.locator("button", has_text=text).first

    def sees(self, *texts: str) -> None:
        for text in texts:
            expect(self.page.get_by_text(text).first).to_be_visible(timeout=WAIT)

    def picture(self, name: str) -> None:
        """Once the page is at rest: all is loaded, toasts are gone, the mouse is nowhere."""
        self.page.mouse.move(0, 0)
        expect(self.page.locator("[class*=toast]")).to_have_count(0, timeout=WAIT)
        expect(self.page.get_by_text("Loading")).to_have_count(0, timeout=WAIT)
        self.page.screenshot(path=self.pictures / f"{name}.png", animations="disabled")

    def tick(self, view: str) -> dict[str, Any]:
        """Click Materialize on the state, and wait for the run to end."""
        before = {run["runId"] for run in self.shop.runs()}
        self.open(f"/assets/{view}/state")
        self.button("Materialize").click()
        return self.shop.ended(self._launched(before))

    def backfill(self, view: str, first: str, last: str) -> dict[str, Any]:
        """Choose a range of partitions in the dialog, launch, and wait for the backfill to end."""
        before = {backfill["id"] for backfill in self.shop.backfills()}
        self.open(f"/assets/{view}?view=partitions")
        self.button("Materialize").click()
        self.choose(first, last)
        self.button("Launch backfill").click()

        def over() -> dict[str, Any] | None:
            new = [backfill for backfill in self.shop.backfills() if backfill["id"] not in before]
            return next((found for found in new if found["status"] not in ("REQUESTED", "COMPLETING")), None)

        ended: dict[str, Any] = until("the end of the backfill", over, SECONDS_TO_RUN)
        return ended

    def choose(self, first: str, last: str) -> None:
        ranges = self.page.get_by_placeholder("No matching partitions")
        ranges.fill(f"[{first}...{last}]")
        ranges.press("Enter")

    def launch(self, job: str) -> dict[str, Any]:
        """Launch a job from its launchpad with the configuration that stands there."""
        before = {run["runId"] for run in self.shop.runs()}
        self.open(f"/locations/shop/jobs/{job}/playground")
        launch = self.button("Launch Run")
        expect(launch).to_be_enabled(timeout=WAIT)
        launch.click()
        return self.shop.ended(self._launched(before))

    def _launched(self, before: set[str]) -> str:
        def new() -> str | None:
            return next((run["runId"] for run in self.shop.runs() if run["runId"] not in before), None)

        launched: str = until("the launch of a run", new, SECONDS_TO_LAUNCH)
        return launched
