// The queues: what comes in, what goes out, how long that takes.

import {
	brief, buttons, count, filled, get, link, none, now, offsetPager, pausing, queueName, sparkline, table, tagged, together, update,
} from "../kit.js";
import { mix } from "../flow.js";
import { DRAINS, OLDEST, RATES, workersOf } from "../pressure.js";

const SPAN_MS = 2 * 3_600_000;
const STEP_MS = 300_000;
const FRESH_MS = 60_000;

// Fewer at a time, as each has a line to be asked for.
export const load = ({ get, page }) => together({ queues: page(["queues"], { limit: 25 }), cluster: get(["cluster"]) });

// The lines come after the list, and not with every look.
function learn(lines) {
	for (const [queue, known] of lines) {
		if (known && now() - known.at < FRESH_MS) continue;
		const line = { at: now(), buckets: known?.buckets };
		lines.set(queue, line);
		get(["queues", queue, "history"], { since_ms: now() - SPAN_MS, bucket_ms: STEP_MS })
			.then((buckets) => {
				line.buckets = filled(buckets, now() - SPAN_MS, now() - STEP_MS, STEP_MS);
				update();
			})
			.catch(() => {});
	}
}

export const pauseButton = (queue, small = true) =>
	pausing(queue, ["queues", queue.queue], "1 queue", queue.queue, { small, starts: "Its jobs are handed out again.", stops: "Jobs still come in, and what runs goes on." });

export function draw({ queues, cluster }, { local }) {
	local.lines = new Map(queues.items.map(({ queue }) => [queue, local.lines?.get(queue)]));
	learn(local.lines);
	const jobs = (title, state, kind = "number") => [title, kind, ({ queue, by_state: states }) => link(["jobs"], { queue, state }, brief(states[state] ?? 0))];
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
				["2 hours", "spark minor", ({ queue }) => sparkline(local.lines.get(queue)?.buckets, `Traffic of ${queue}`)],
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
