// One queue: its traffic, what holds its jobs, whose turn it is, and what is set on it.

import { h } from "../dom.js";
import { get, now, page } from "../api.js";
import { go } from "../address.js";
import { filled, level, traffic } from "../charts.js";
import { bytes, count, duration, percent, plural, rate } from "../format.js";
import { asking, empty, facts, field, input, link, name, none, offsetPager, section, table, tabs } from "../parts.js";
import { drainText, REASONS } from "../pressure.js";
import { badge } from "../states.js";
import { mix, RANGES } from "./overview.js";
import { pauseButton } from "./queues.js";

const PAGE = 50;

export const title = ({ path }) => `Queue ${path[1]}`;

export async function load({ path, query, signal }) {
	const queue = path[1];
	const { spanMs, stepMs } = RANGES[query.range] ?? RANGES["1h"];
	const [found, blocked, history, partitions] = await Promise.all([
		one(queue, signal),
		get(["queues", queue, "blocked"], {}, signal),
		get(["queues", queue, "history"], { since_ms: now() - spanMs, bucket_ms: stepMs }, signal),
		page(["partitions"], { queue, limit: PAGE, cursor: query.cursor }, signal),
	]);
	return { queue: found, blocked, partitions, stepMs, buckets: filled(history, now() - spanMs, now(), stepMs) };
}

// The list is by name, so that a queue is on the page that begins with it.
async function one(queue, signal) {
	let cursor = 0;
	do {
		const list = await page(["queues"], { limit: 200, cursor }, signal);
		const found = list.items.find((each) => each.queue === queue);
		if (found) return found;
		cursor = list.next;
	} while (cursor);
	return null;
}

export function draw({ queue, blocked, partitions, buckets, stepMs }, { path, query, local, update, refresh }) {
	if (!queue) return empty("There is no such queue", "Nothing is in it, and nothing is set on it.");
	const range = query.range in RANGES ? query.range : "1h";
	const total = Math.max(1, blocked.waiting);
	const reasons = Object.entries(blocked.reasons).filter(([, number]) => number > 0);
	const states = Object.entries(queue.by_state).sort((a, b) => b[1] - a[1]);
	const sum = Math.max(1, partitions.items.reduce((all, each) => all + each.waiting, 0));
	return [
		h("div.headline", name(queue.queue, { empty: "(no name)" }), queue.paused && h("span.tag", "paused"), h("div.tools", settings(queue, refresh))),
		h(
			"div.columns.wide-left",
			section(
				"Traffic",
				{ aside: tabs("Range", Object.keys(RANGES).map((each) => ({ title: each, path, query: { range: each }, active: each === range }))) },
				traffic(buckets, { stepMs, pointed: local.pointed, point: (index) => { local.pointed = index; update(); }, label: `Traffic of ${queue.queue} in ${range}` }),
			),
			section(
				"State",
				{},
				facts([
					["Jobs", h("div.states", states.length ? states.map(([state, number]) => link(["jobs"], { queue: queue.queue, state }, badge(state), " ", count(number))) : "none")],
					["Rates", `${rate(queue.arrival_rate)} in, ${rate(queue.drain_rate)} out`],
					["Drains in", drainText(queue)],
					["Oldest", queue.oldest_available_ms === null ? none() : duration(queue.oldest_available_ms)],
					["Workers", link(["workers"], {}, plural(blocked.live_workers, "live worker"))],
					["Weight", count(queue.weight)],
					["Limit", queue.max_unfinished_jobs === null ? "none" : plural(queue.max_unfinished_jobs, "unfinished job")],
					queue.memory_bytes !== null && ["Weighs", bytes(queue.memory_bytes)],
					queue.quiet_groups.noisy_partitions > 0 && ["The quiet", `without ${plural(queue.quiet_groups.noisy_partitions, "noisy partition")}: ${rate(queue.quiet_groups.arrival_rate)} in, ${rate(queue.quiet_groups.drain_rate)} out`],
				]),
				h("div.inset", mix(queue)),
			),
		),
		h(
			"div.columns",
			section(
				"Held at the gate",
				{ note: blocked.approximate ? "of the oldest" : "" },
				blocked.waiting
					? h("ul.reasons", [...reasons, ["free", blocked.waiting - reasons.reduce((all, [, number]) => all + number, 0)]].map(([reason, number]) => h("li", { key: reason }, h("span.reason", REASONS[reason] ?? "only for a free worker"), level(number / total, count(number), { tone: reason === "free" ? "free" : "held" }))))
					: empty("Nothing waits"),
			),
			section(
				"Partitions that wait",
				{ note: "they take turns" },
				partitions.items.length
					? [
							table(
								"Partitions",
								[
									["Partition", "main", (each) => name(each.partition_key, { path: ["jobs"], query: { queue: queue.queue, partition_key: each.partition_key, state: "available" }, empty: "(none)" })],
									["Waiting", "number", (each) => count(each.waiting)],
									["Share of the work", "share", (each) => level(each.waiting / sum, percent(each.waiting / sum))],
								],
								partitions.items,
								{ key: (each) => each.partition_key },
							),
							offsetPager(path, query, partitions.next, PAGE),
						]
					: empty("No partition waits"),
			),
		),
	];
}

function settings(queue, refresh) {
	const path = ["queues", queue.queue];
	const number = (label, name, value, props) => ({ fields: () => field(label, input(name, { type: "number", value, ...props }), props.hint) });
	return [
		pauseButton(queue, refresh, { small: false }),
		asking("Weight", { role: "admin", small: false, refresh, send: ({ weight }) => ["PUT", path, { weight: Number(weight) }], question: { title: "Its share of the capacity", confirm: "Set", ...number("Weight", "weight", queue.weight, { min: 1, required: true, hint: "Queues with work share the workers by their weights." }) } }),
		asking("Limit", {
			role: "admin",
			small: false,
			refresh,
			send: ({ limit }) => (limit === "" ? ["DELETE", [...path, "enqueue-limit"]] : ["PUT", [...path, "enqueue-limit"], { max_unfinished_jobs: Number(limit) }]),
			question: { title: "How many unfinished jobs it may hold", confirm: "Set", ...number("Unfinished jobs at most", "limit", queue.max_unfinished_jobs ?? "", { min: 0, hint: "Beyond, enqueues are refused. Empty: no limit; 0: nothing gets in." }) },
		}),
		asking("Delete", {
			role: "admin",
			small: false,
			tone: "danger",
			send: () => ["DELETE", path, undefined, { force: queue.unfinished_jobs > 0 }],
			question: {
				title: `Delete ${queue.queue}?`,
				text: queue.unfinished_jobs > 0 ? `It is closed, its ${plural(queue.unfinished_jobs, "unfinished job")} are deleted, and what runs is waited for.` : "It is forgotten; finished jobs stay until their retention is over.",
				confirm: queue.unfinished_jobs > 0 ? `Delete ${plural(queue.unfinished_jobs, "job")}` : "Delete 1 queue",
			},
			refresh: ({ value }) => go(value?.operation_id ? ["operations", value.operation_id] : ["queues"]),
		}),
	];
}
