// One queue: its traffic, what holds its jobs, whose turn it is, and what is set on it.

import {
	asking, badge, bytes, count, counts, empty, facts, go, h, level, link, name, number, offsetPager, percent,
	plural, rate, section, table, together, tools,
} from "../kit.js";
import { heldSection, history, mix, trafficSection } from "../flow.js";
import { drainText, oldest } from "../pressure.js";
import { pauseButton } from "./queues.js";

export const title = ({ path }) => `Queue ${path[1]}`;

export function load(asked) {
	const { path, get, page } = asked;
	return together({
		queue: page(["queues"], { queue: path[1], cursor: undefined }),
		blocked: get([...path, "blocked"]),
		traffic: history(asked, [...path, "history"]),
		partitions: page(["partitions"], { queue: path[1] }),
	});
}

export function draw({ queue: { items: [queue] }, blocked, partitions, traffic }, { local }) {
	if (!queue) return empty("There is no such queue", "Nothing is in it, and nothing is set on it.");
	const states = Object.entries(queue.by_state).sort((a, b) => b[1] - a[1]);
	const sum = Math.max(1, partitions.items.reduce((all, each) => all + each.waiting, 0));
	const { quiet_groups: quiet } = queue;
	return [
		h("div.headline", name(queue.queue, null, { empty: "(no name)" }), queue.paused && h("span.tag", "paused"), tools(settings(queue))),
		h(
			"div.columns.wide-left",
			trafficSection(traffic, local),
			section(
				"State",
				{},
				facts([
					["Jobs", h("div.states", states.length ? states.map(([state, number]) => link(["jobs"], { queue: queue.queue, state }, badge(state), " ", count(number))) : "none")],
					["Rates", `${rate(queue.arrival_rate)} in, ${rate(queue.drain_rate)} out`],
					["Drains in", drainText(queue)],
					["Oldest", oldest(queue)],
					["Workers", link(["workers"], {}, plural(blocked.live_workers, "live worker"))],
					["Weight", count(queue.weight)],
					["Limit", queue.max_unfinished_jobs === null ? "none" : plural(queue.max_unfinished_jobs, "unfinished job")],
					queue.memory_bytes !== null && ["Weighs", bytes(queue.memory_bytes)],
					quiet.noisy_partitions > 0 && ["The quiet", `without ${plural(quiet.noisy_partitions, "noisy partition")}: ${rate(quiet.arrival_rate)} in, ${rate(quiet.drain_rate)} out`],
				]),
				h("div.inset", mix(queue)),
			),
		),
		h(
			"div.columns",
			heldSection([blocked], blocked.approximate ? "of the oldest" : ""),
			section(
				"Partitions that wait",
				{ note: "they take turns" },
				table(
					"Partitions",
					[
						["Partition", "main", ({ partition_key }) => name(partition_key, ["jobs"], { query: { queue: queue.queue, partition_key, state: "available" }, empty: "(none)" })],
						counts("Waiting", "waiting"),
						["Share of the work", "share", ({ waiting }) => level(waiting / sum, percent(waiting / sum))],
					],
					partitions.items,
					{ key: "partition_key", nothing: ["No partition waits"] },
				),
				offsetPager(partitions),
			),
		),
	];
}

function settings(queue) {
	const path = ["queues", queue.queue];
	const limit = [...path, "enqueue-limit"];
	const jobs = queue.unfinished_jobs;
	const setting = (label, extra) => asking(label, { role: "admin", small: false, confirm: "Set", ...extra });
	return [
		pauseButton(queue, false),
		setting("Weight", {
			title: "Its share of the capacity",
			fields: () => number("Weight", "weight", { value: queue.weight, min: 1, required: true }, "Queues with work share the workers by their weights."),
			send: ({ weight }) => ["PUT", path, { weight: Number(weight) }],
		}),
		setting("Limit", {
			title: "How many unfinished jobs it may hold",
			fields: () => number("Unfinished jobs at most", "limit", { value: queue.max_unfinished_jobs ?? "", min: 0 }, "Beyond, enqueues are refused. Empty: no limit; 0: nothing gets in."),
			send: (given) => (given.limit === "" ? ["DELETE", limit] : ["PUT", limit, { max_unfinished_jobs: Number(given.limit) }]),
		}),
		setting("Delete", {
			tone: "danger",
			title: `Delete ${queue.queue}?`,
			text: jobs > 0 ? `It is closed, its ${plural(jobs, "unfinished job")} are deleted, and what runs is waited for.` : "It is forgotten; finished jobs stay until their retention is over.",
			confirm: `Delete ${jobs > 0 ? plural(jobs, "job") : "1 queue"}`,
			send: ["DELETE", path, undefined, { force: jobs > 0 }],
			then: ({ value }) => go(value?.operation_id ? ["operations", value.operation_id] : ["queues"]),
		}),
	];
}
