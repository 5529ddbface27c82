// The queues: what comes in, what goes out, how long that takes.

import { h } from "../dom.js";
import { get, now, page } from "../api.js";
import { filled, sparkline } from "../charts.js";
import { brief, count, duration, rate } from "../format.js";
import { asking, empty, link, none, offsetPager, queueName, table } from "../parts.js";
import { drainText, trend, waiting } from "../pressure.js";
import { mix } from "./overview.js";

const PAGE = 25;
const SPAN_MS = 2 * 3_600_000;
const STEP_MS = 300_000;
const FRESH_MS = 60_000;

export const title = () => "Queues";

export async function load({ query, local, signal }) {
	const [queues, cluster] = await Promise.all([page(["queues"], { limit: PAGE, cursor: query.cursor }, signal), get(["cluster"], {}, signal)]);
	const before = local.lines;
	local.lines = new Map(queues.items.map(({ queue }) => [queue, before?.get(queue)]));
	return { queues, workers: new Map(cluster.queues.map((each) => [each.queue, each.live_workers])) };
}

// The lines come after the list, and not with every look.
function learn({ local, update }) {
	for (const [queue, known] of local.lines) {
		if (known && now() - known.at < FRESH_MS) continue;
		const line = { at: now(), buckets: known?.buckets };
		local.lines.set(queue, line);
		get(["queues", queue, "history"], { since_ms: now() - SPAN_MS, bucket_ms: STEP_MS })
			.then((buckets) => {
				line.buckets = filled(buckets, now() - SPAN_MS, now() - STEP_MS, STEP_MS);
				update();
			})
			.catch(() => {});
	}
}

export function pauseButton(queue, refresh, props) {
	const path = (verb) => ["POST", ["queues", queue.queue, verb]];
	return queue.paused
		? asking("Resume", { ...props, refresh, send: () => path("resume"), question: { title: `Resume ${queue.queue}?`, text: "Its jobs are handed out again.", confirm: "Resume 1 queue" } })
		: asking("Pause", { ...props, refresh, send: () => path("pause"), question: { title: `Pause ${queue.queue}?`, text: "Jobs still come in, and what runs goes on.", confirm: "Pause 1 queue" } });
}

export function draw({ queues, workers }, context) {
	if (!queues.items.length) return empty("No queue has been used yet", "The first job makes the first queue.");
	learn(context);
	const jobs = (queue, state) => link(["jobs"], { queue: queue.queue, state }, brief(state === "available" ? waiting(queue) : (queue.by_state[state] ?? 0)));
	return [
		table(
			"Queues",
			[
				["Queue", "main", (queue) => h("div.with-tag", queueName(queue.queue), queue.paused && h("span.tag", "paused"))],
				["Waiting", "number", (queue) => jobs(queue, "available")],
				["Running", "number", (queue) => jobs(queue, "running")],
				["Dead", "number minor", (queue) => jobs(queue, "archived")],
				["", "bar-cell minor", mix],
				["In", "number", (queue) => rate(queue.arrival_rate)],
				["Out", "number", (queue) => rate(queue.drain_rate)],
				["2 hours", "spark minor", (queue) => sparkline(context.local.lines.get(queue.queue)?.buckets, `Traffic of ${queue.queue}`)],
				["Oldest", "number", (queue) => (queue.oldest_available_ms === null ? none() : duration(queue.oldest_available_ms))],
				["Drains in", "number", (queue) => h("span", { class: trend(queue) === "growing" ? "warn-text" : "" }, drainText(queue))],
				["Weight", "number minor", (queue) => count(queue.weight)],
				["Limit", "number minor", (queue) => (queue.max_unfinished_jobs === null ? none() : brief(queue.max_unfinished_jobs))],
				["Workers", "number", (queue) => h("span", { class: !workers.get(queue.queue) && queue.unfinished_jobs > 0 ? "bad-text" : "" }, count(workers.get(queue.queue) ?? 0))],
				["", "actions", (queue) => pauseButton(queue, context.refresh)],
			],
			queues.items,
			{ key: (queue) => queue.queue },
		),
		offsetPager(["queues"], context.query, queues.next, PAGE),
	];
}
