// The queues: what comes in, what goes out, how long that takes.

import {
	brief, buttons, count, filled, none, now, offsetPager, pausing, queueName, sparkline, table, tagged, together,
} from "../kit.js";
import { mix } from "../flow.js";
import { DRAINS, jobsIn, OLDEST, RATES, workersOf } from "../pressure.js";

const SPAN_MS = 2 * 3_600_000;
const STEP_MS = 300_000;
const FRESH_MS = 60_000;

// Fewer at a time, as each has a line to be asked for. Lines come after the list, and not each time.
export async function load({ first, get, known, page }) {
	const found = { ...known, ...(await together({ queues: page(["queues"], { limit: 25 }), cluster: get(["cluster"]) })) };
	first(found);
	const { items } = found.queues;
	const [since, until] = [now() - SPAN_MS, now() - STEP_MS];
	if (found.until > until - FRESH_MS && items.every(({ queue }) => found.lines.has(queue))) return found;
	const line = async ({ queue }) => [queue, await get(["queues", queue, "history"], { since_ms: since, bucket_ms: STEP_MS }).then((buckets) => filled(buckets, since, until, STEP_MS), () => {})];
	return { ...found, until, lines: new Map(await Promise.all(items.map(line))) };
}

export const pauseButton = (queue, small = true) =>
	pausing(queue, ["queues", queue.queue], "1 queue", queue.queue, { small, starts: "Its jobs are handed out again.", stops: "Jobs still come in, and what runs goes on." });

export function draw({ cluster, lines, queues }) {
	const jobs = jobsIn(brief);
	return [
		table(
			"Queues",
			[
				["Queue", "main", ({ queue, paused }) => tagged(queueName(queue), paused && "paused")],
				jobs("Waiting", "available"),
				jobs("Running", "running"),
				jobs("Dead", "archived", "number minor"),
				["", "bar-cell minor", mix],
				...RATES,
				["2 hours", "spark minor", ({ queue }) => sparkline(lines?.get(queue), `Traffic of ${queue}`)],
				OLDEST,
				DRAINS,
				["Weight", "number minor", ({ weight }) => count(weight)],
				["Limit", "number minor", ({ max_unfinished_jobs: limit }) => (limit === null ? none() : brief(limit))],
				workersOf(cluster),
				buttons(pauseButton),
			],
			queues.items,
			{ key: "queue", nothing: ["No queue has been used yet", "The first job makes the first queue."] },
		),
		offsetPager(queues),
	];
}
