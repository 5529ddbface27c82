"""What an operator does, through the console, and what became of it, asked of the API."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.console.screen import Screen

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def ask(screen: Screen, path: str) -> Any:
    """What the API says."""
    answer = await screen.page.request.get(f"{screen.site}api/v1{path}")
    assert answer.ok, await answer.text()
    return await answer.json()


async def send(screen: Screen, method: str, path: str, body: Mapping[str, Any]) -> None:
    answer = await screen.page.request.fetch(
        f"{screen.site}api/v1{path}",
        method=method,
        data=json.dumps(body),
        headers={"content-type": "application/json", "idempotency-key": f"{method}{path}"[:255]},
    )
    assert answer.ok, await answer.text()


async def enqueue(screen: Screen, job_id: str, **fields: Any) -> None:
    body = {"kind": "t.k", "payload": "e30=", "id": job_id, **fields}
    answer = await screen.page.request.post(
        f"{screen.site}api/v1/jobs",
        data=json.dumps(body),
        headers={"content-type": "application/json", "idempotency-key": job_id},
    )
    assert answer.ok, await answer.text()


async def state_of(screen: Screen, job_id: str) -> str:
    state: str = (await ask(screen, f"/jobs/{job_id}"))["state"]
    return state


async def test_a_job_is_enqueued_and_explained(screen: Screen) -> None:
    await screen.go("enqueue")
    page = screen.page
    await page.get_by_label("Kind").fill("made:here")
    await page.get_by_label("Queue").fill("handmade")
    await page.get_by_label("Payload").fill('{"big": 9007199254740993, "text": "é"}')
    await page.get_by_label("Tags").fill("one two")
    await screen.button("Enqueue").click()
    await screen.see("Why it is not running")
    await screen.see("Nothing holds it.")
    await screen.see("No live worker polls queue handmade.")
    await screen.button("Show payload").click()
    # No digit of an integer is lost that a number of the browser would round.
    await screen.see("9007199254740993")
    found = await ask(screen, "/jobs?queue=handmade")
    assert [each["tags"] for each in found["jobs"]] == [["one", "two"]]


async def test_what_the_api_refuses_is_told_and_can_be_corrected(screen: Screen) -> None:
    screen.expected.add(400)
    await screen.go("enqueue")
    await screen.page.get_by_label("Kind").fill("bad kind")
    await screen.button("Enqueue").click()
    await screen.see("invalid kind `bad kind`")
    await screen.page.get_by_label("Kind").fill("good.kind")
    await screen.button("Enqueue").click()
    await screen.see("Why it is not running")


async def test_each_reason_is_a_sentence(screen: Screen) -> None:
    for job_id, sentence, cure in (
        ("import-3", "Its queue imports is paused.", "until somebody resumes the queue"),
        ("bill-2", "It is not due yet.", "It is due in about"),
        ("poison-1", "killed their workers", "until somebody releases the fingerprint"),
        ("report-w-3", "are running.", "It can run when one of them ends."),
        ("dead-2", "It failed for good, after 5 attempts.", "Retry it once the cause is gone."),
        ("pending-1", "It waits for somebody.", "Promote it to let it go."),
        ("undecodable-1", "The worker could not read it.", "deploy code that reads it"),
    ):
        await screen.go("jobs", job_id)
        why = screen.page.locator("section.why")
        await why.get_by_text(sentence).wait_for()
        await why.get_by_text(cure).wait_for()


async def test_a_queue_is_paused_and_resumed(screen: Screen) -> None:
    await enqueue(screen, "pause-me", queue="to-pause")
    await screen.go("queues", "to-pause")
    await screen.button("Pause").click()
    await screen.confirm("Pause 1 queue")
    await screen.notice("Pause: done")
    await screen.button("Resume").wait_for()
    await screen.go("jobs", "pause-me")
    await screen.see("Its queue to-pause is paused.")
    await screen.go("queues", "to-pause")
    await screen.button("Resume").click()
    await screen.confirm("Resume 1 queue")
    await screen.button("Pause").wait_for()


async def test_weight_and_limit_of_a_queue_are_set(screen: Screen) -> None:
    await enqueue(screen, "weigh-me", queue="to-weigh")
    await screen.go("queues", "to-weigh")
    await screen.button("Weight").click()
    await screen.page.get_by_label("Weight").fill("7")
    await screen.confirm("Set")
    await screen.closed()
    await screen.button("Limit").click()
    await screen.page.get_by_label("Unfinished jobs at most").fill("1234")
    await screen.confirm("Set")
    await screen.see("1,234 unfinished jobs")
    queues = {each["queue"]: each for each in await ask(screen, "/queues")}
    assert queues["to-weigh"]["weight"] == 7
    assert queues["to-weigh"]["max_unfinished_jobs"] == 1234


async def test_a_dead_job_is_retried(screen: Screen) -> None:
    await screen.go("jobs", "dead-0")
    await screen.button("Retry").click()
    await screen.see("All 5 attempts are used", within="dialog")
    await screen.confirm("Retry 1 job")
    await screen.see("Nothing holds it.")
    assert await state_of(screen, "dead-0") == "available"


async def test_actions_are_there_where_the_lifecycle_allows_them(screen: Screen) -> None:
    for job_id, possible in (
        ("report-1", {"Cancel"}),
        ("retry-1", {"Reschedule", "Cancel", "Delete"}),
        ("dead-4", {"Retry", "Delete"}),
        ("pending-1", {"Promote", "Cancel", "Delete"}),
    ):
        await screen.go("jobs", job_id)
        for label in ("Retry", "Reschedule", "Cancel", "Delete"):
            button = screen.button(label)
            disabled = await button.get_attribute("aria-disabled") == "true"
            assert disabled is (label not in possible), (job_id, label)
            if disabled:
                assert await button.get_attribute("title")


async def test_a_job_is_rescheduled(screen: Screen) -> None:
    await screen.go("jobs", "bill-5")
    await screen.button("Reschedule").click()
    await screen.page.get_by_label("Due at").fill("2099-01-02T03:04")
    await screen.confirm("Reschedule")
    await screen.closed()
    assert (await ask(screen, "/jobs/bill-5"))["scheduled_at_ms"] > 4_070_000_000_000


async def test_a_payload_is_edited(screen: Screen) -> None:
    await screen.go("jobs", "undecodable-1")
    await screen.button("Show payload").click()
    await screen.button("Edit the payload").click()
    await screen.page.locator("dialog textarea").fill('{"to": "bob"}')
    await screen.confirm("Write it")
    await screen.closed()
    found = await ask(screen, "/jobs/undecodable-1?include_payload=true")
    assert found["payload"] == "eyJ0byI6ICJib2IifQ=="


async def test_selected_jobs_succeed_and_fail_one_by_one(screen: Screen) -> None:
    await enqueue(screen, "pick-1", queue="picked")
    await enqueue(screen, "pick-2", queue="picked", pending=True)
    page = screen.page
    await screen.go("jobs", queue="picked")
    both = page.get_by_label("Select all jobs of this page")
    await both.check()
    await screen.see("2 jobs selected")
    # What was acted on is not selected any more, even while the list is slow to come.
    listed = asyncio.Event()

    async def wait(route: Any) -> None:
        await listed.wait()
        await route.continue_()

    await page.route("**/api/v1/jobs?*", wait)
    await screen.button("Cancel").click()
    await screen.confirm("Cancel 2 jobs")
    await screen.notice("2 jobs: done")
    assert not await both.is_checked()
    await both.check()
    await screen.see("2 jobs selected")
    listed.set()
    await screen.button("Retry").click()
    await screen.see("Retry 2 jobs?", within="dialog")
    # Meanwhile somebody else deletes one of them.
    gone = await page.request.delete(
        f"{screen.site}api/v1/jobs/pick-2", headers={"idempotency-key": "gone"}
    )
    assert gone.status == 204
    await screen.confirm("Retry 2 jobs")
    await screen.see("1 succeeded, 1 failed", within="dialog")
    await screen.see("not found: job pick-2", within="dialog")
    assert await state_of(screen, "pick-1") == "available"


async def test_deleting_asks_with_the_number_and_not_by_enter(screen: Screen) -> None:
    for number in range(3):
        await enqueue(screen, f"keep-{number}", queue="kept")
    await screen.go("jobs", queue="kept")
    await screen.page.get_by_label("Select all jobs of this page").check()
    await screen.button("Delete").click()
    await screen.see("Delete 3 jobs?", within="dialog")
    await screen.page.keyboard.press("Enter")
    await screen.closed()
    assert screen.mutations == []
    await screen.go("jobs", state="available", queue="kept")
    await screen.button("All matching…").click()
    await screen.page.get_by_label("What to do").select_option("delete")
    await screen.confirm("Count them (dry run)")
    await screen.see("Delete 3 jobs?", within="dialog")
    assert len((await ask(screen, "/jobs?queue=kept"))["jobs"]) == 3


async def test_bulk_work_counts_first_and_agrees_with_the_list(screen: Screen) -> None:
    for number in range(5):
        await enqueue(screen, f"bulk-{number}", queue="bulk", kind="report.daily")
    for number in range(4):
        await enqueue(screen, f"other-{number}", queue="bulk", kind="mail.daily")
    await screen.go("jobs", q="kind:report.daily queue:bulk")
    await screen.see("5 jobs")
    # Counts of states do not know the kind, so none is shown beside it.
    assert await screen.page.locator(".tabs .tab-note").count() == 0
    await screen.button("All matching…").click()
    await screen.confirm("Count them (dry run)")
    await screen.see("A dry run counted 5 jobs", within="dialog")
    await screen.confirm("Cancel 5 jobs")
    await screen.see("0 of about 5 jobs")
    operation = (await ask(screen, "/operations"))[0]
    assert operation["selector"] == {"kind": "report.daily", "queue": "bulk"}
    await screen.see(operation["id"])
    await screen.button("End it").click()
    await screen.confirm("End 1 operation")
    await screen.see("cancelled")


async def test_bulk_work_is_not_offered_for_what_it_cannot_select(screen: Screen) -> None:
    for query in ({"q": "report"}, {"q": "tag:a state:archived"}, {}):
        await screen.go("jobs", **query)
        button = screen.button("All matching…")
        assert await button.get_attribute("aria-disabled") == "true"
        assert await button.get_attribute("title")


async def test_a_schedule_is_made_edited_run_and_paused(screen: Screen) -> None:
    screen.expected.add(400)
    page = screen.page
    await screen.go("periodic")
    await screen.button("New schedule").click()
    await page.get_by_label("Id").fill("made:here/1")
    await page.get_by_label("When").fill("never")
    await screen.see("bad cron `never`", within="dialog")
    await page.get_by_label("When").fill("CRON_TZ=Asia/Tokyo 15 9 * * *")
    await screen.see("09:15 Asia/Tokyo", within="dialog")
    assert await page.locator("dialog .ticking li").count() == 5
    await page.get_by_label("Kind").fill("tick.tock")
    await page.locator("dialog textarea").fill('{"n": 1}')
    await screen.confirm("Make it")
    await screen.closed()
    await screen.follow(screen.row("made:here/1").get_by_role("link").first)
    await screen.button("Run now").click()
    await screen.confirm("Run it now")
    await screen.notice("It is in")
    await screen.button("Pause").click()
    await screen.confirm("Pause 1 schedule")
    await screen.button("Resume").wait_for()
    # Editing keeps what is not touched, the payload and the pause too.
    await screen.button("Edit").click()
    await page.get_by_label("Queue").fill("elsewhere")
    await screen.confirm("Write it")
    await screen.closed()
    found = await ask(screen, "/periodic/made%3Ahere%2F1?include_payload=true")
    assert (found["queue"], found["paused"], found["payload"]) == (
        "elsewhere", True, "eyJuIjogMX0=",
    )  # fmt: skip
    await screen.button("Delete").click()
    await screen.confirm("Delete 1 schedule")
    await screen.page.wait_for_url("**/#/periodic")


async def test_a_worker_is_told_something(screen: Screen) -> None:
    await screen.go("workers")
    row = screen.row("host-1-4711")
    await row.get_by_role("button", name="Quiet").click()
    await screen.confirm("Quiet 1 worker")
    await row.get_by_text("→ quiet").wait_for()
    # While it has not heard of it, nothing else can be said.
    restart = row.get_by_role("button", name="Restart")
    assert await restart.get_attribute("aria-disabled") == "true"
    assert await restart.get_attribute("title") == "it has yet to fetch quiet"
    await row.get_by_role("button", name="Take back").click()
    await screen.confirm("Take back")
    await row.get_by_role("button", name="Take back").wait_for(state="detached")


async def test_a_fingerprint_is_looked_at_and_released(screen: Screen) -> None:
    await screen.go("quarantine")
    await screen.button("Sample").click()
    await screen.see("The newest job of this fingerprint", within="dialog")
    await screen.see("9007199254740993", within="dialog")
    await screen.page.keyboard.press("Escape")
    await screen.button("Release").click()
    await screen.confirm("Release 1 fingerprint")
    await screen.notice("Released 4 jobs")
    await screen.see("Nothing is in quarantine")


async def test_policies_are_made_changed_and_deleted(screen: Screen) -> None:
    page = screen.page
    await screen.go("policies")
    await screen.button("New rate class").click()
    await page.get_by_label("Name").fill("fresh")
    await page.get_by_label("Tokens per window").fill("30")
    await page.get_by_label("Window in seconds").fill("1.5")
    await screen.confirm("Set")
    await screen.row("fresh").get_by_text("30 per 1.5 s").wait_for()
    await screen.row("fresh").get_by_role("button", name="Change").click()
    await page.get_by_label("Paused: let nothing pass").check()
    await screen.confirm("Set")
    await screen.row("fresh").get_by_text("paused").wait_for()
    await screen.row("fresh").get_by_role("button", name="Delete").click()
    await screen.confirm("Delete 1 rate class")
    await screen.row("fresh").wait_for(state="detached")
    await screen.button("New limit").click()
    await page.get_by_label("Name").fill("fresh-limit")
    await page.get_by_label("Queue").fill("fresh-queue")
    await page.get_by_label("Running at most").fill("4")
    await screen.confirm("Set")
    await screen.row("fresh-limit").wait_for()


async def test_a_workflow_leads_to_its_jobs_and_they_lead_back(screen: Screen) -> None:
    page = screen.page
    await screen.go("workflows")
    await screen.follow(screen.row("nightly-import").get_by_role("link").first)
    nodes = page.locator(".node")
    assert await nodes.locator(".name").all_inner_texts() == [
        "fetch", "prices", "stock", "pictures", "publish", "tell everybody",
    ]  # fmt: skip
    columns = [await nodes.nth(at).evaluate("node => node.offsetLeft") for at in range(6)]
    assert columns == [0, 220, 220, 220, 440, 660]
    assert await page.locator(".edge").count() == 7
    assert await page.locator(".edge.done").count() == 4
    await screen.follow(nodes.filter(has_text="stock").get_by_role("link"))
    await page.get_by_role("heading", name="nightly-import:stock", exact=True).wait_for()
    await screen.follow(page.locator(".facts").get_by_role("link", name="nightly-import"))
    await screen.button("Retry").click()
    await screen.confirm("Retry 1 workflow")
    await screen.notice("Retry: done")
    assert await state_of(screen, "nightly-import:stock") == "available"
    await screen.button("Cancel").click()
    await screen.confirm("Cancel 1 workflow")
    await page.locator(".headline").get_by_text("cancelled").wait_for()


async def test_a_queue_is_deleted_with_its_jobs(screen: Screen) -> None:
    await enqueue(screen, "doomed-1", queue="doomed")
    await screen.go("queues", "doomed")
    await screen.button("Delete").click()
    await screen.confirm("Delete 1 job")
    await screen.see("Operation qdel-", within=".bar")


async def test_what_was_done_stands_in_the_trail(screen: Screen) -> None:
    await send(screen, "PUT", "/queues/trail", {"weight": 2})
    await screen.go("audit")
    await screen.row("trail").get_by_text("PUT /queues/{queue}").first.wait_for()
