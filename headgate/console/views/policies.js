// What the gate obeys: rate classes and concurrency limits.

import { h } from "../dom.js";
import { get, page } from "../api.js";
import { level } from "../charts.js";
import { brief, count, duration, percent } from "../format.js";
import { asking, choice, empty, field, input, link, name, none, offsetPager, queueName, section, table } from "../parts.js";

const PAGE = 50;
const SATURATED = { queue: "it waits", discard: "it is archived", cancel_incoming: "it is cancelled", cancel_running: "the oldest that runs is cancelled" };

export const title = () => "Policies";

export async function load({ query, signal }) {
	const [classes, limits] = await Promise.all([page(["rate-classes"], { limit: PAGE, cursor: query.cursor }, signal), page(["concurrency-limits"], { limit: PAGE }, signal)]);
	const blocked = await Promise.all(limits.items.map(({ queue }) => get(["queues", queue, "blocked"], {}, signal)));
	const running = await Promise.all(limits.items.map(({ queue }) => get(["jobs", "counts"], { queue }, signal)));
	return { classes, limits: { ...limits, items: limits.items.map((limit, index) => ({ ...limit, held: blocked[index].reasons.concurrency_limit, approximate: blocked[index].approximate, running: running[index].counts.running ?? 0 })) } };
}

const number = (name, value, props) => input(name, { type: "number", required: true, value, ...props });

function putClass(label, known, refresh) {
	return asking(label, {
		role: "admin",
		refresh,
		send: ({ name, limit, seconds, burst, paused }) => ["PUT", ["rate-classes", known?.name ?? name], { limit: Number(limit), window_ms: Math.round(Number(seconds) * 1000), burst: burst === "" ? null : Number(burst), paused: paused === "on" }],
		question: {
			title: known ? `Rate class ${known.name}` : "New rate class",
			confirm: "Set",
			fields: () => [
				!known && field("Name", input("name", { required: true })),
				h("div.pair", field("Tokens per window", number("limit", known?.limit_per_window ?? 100, { min: 0 })), field("Window in seconds", number("seconds", (known?.window_ms ?? 60_000) / 1000, { min: 0.001, step: "any" }))),
				field("Saved up at most", number("burst", known?.burst ?? "", { min: 1, required: false }), "Empty: those of one window."),
				h("label.check", h("input", { type: "checkbox", name: "paused", checked: known?.paused }), "Paused: let nothing pass"),
				known?.paused && h("p.faint", "A paused class has forgotten its limit: set it anew when you let it go on."),
			],
		},
	});
}

function putLimit(label, known, refresh) {
	return asking(label, {
		role: "admin",
		refresh,
		send: ({ name, queue, most, saturated }) => ["PUT", ["concurrency-limits", known?.name ?? name], { queue, max_concurrent: Number(most), on_saturated: saturated }],
		question: {
			title: known ? `Concurrency limit ${known.name}` : "New concurrency limit",
			confirm: "Set",
			fields: () => [
				!known && field("Name", input("name", { required: true })),
				h("div.pair", field("Queue", input("queue", { required: true, value: known?.queue ?? "" })), field("Running at most, in each partition", number("most", known?.max_concurrent ?? 1, { min: 1 }))),
				field("A job that is too many", choice({ name: "saturated", value: known?.on_saturated ?? "queue" }, Object.entries(SATURATED))),
			],
		},
	});
}

const remove = (kind, what, { name }, refresh) => asking("Delete", { role: "admin", tone: "danger", refresh, send: () => ["DELETE", [kind, name]], question: { title: `Delete ${name}?`, text: `Its jobs run without ${what} from now on.`, confirm: `Delete 1 ${what}` } });

export function draw({ classes, limits }, { query, refresh }) {
	return [
		section(
			"Rate classes",
			{ aside: putClass("New rate class", null, refresh), note: "tokens come in per window, and jobs take them" },
			classes.items.length
				? table(
						"Rate classes",
						[
							["Class", "main", (each) => h("div.with-tag", name(each.name, { path: ["jobs"], query: { q: `rate_class:${each.name}` } }), each.paused && h("span.tag", "paused"))],
							["Level now", "share", (each) => level(each.tokens_available / each.burst, `${brief(each.tokens_available)} of ${brief(each.burst)}`, { tone: each.tokens_available === 0 ? "held" : "" })],
							["Comes in", "number", (each) => (each.paused ? none() : `${count(each.limit_per_window)} per ${duration(each.window_ms)}`)],
							["Waiting", "number", (each) => `${count(each.jobs_waiting)}${each.jobs_waiting >= 1000 ? "+" : ""}`],
							["", "actions", (each) => h("div.tools", putClass("Change", each, refresh), remove("rate-classes", "rate class", each, refresh))],
						],
						classes.items,
						{ key: (each) => each.name },
					)
				: empty("No rate class", "Jobs of a class that is not set here run unlimited."),
		),
		offsetPager(["policies"], query, classes.next, PAGE),
		section(
			"Concurrency limits",
			{ aside: putLimit("New limit", null, refresh), note: "how much of each partition of a queue runs at a time" },
			limits.items.length
				? table(
						"Concurrency limits",
						[
							["Limit", "main", (each) => name(each.name)],
							["Queue", "kind", (each) => queueName(each.queue)],
							["At most", "number", (each) => count(each.max_concurrent)],
							["Saturation", "share", (each) => level(each.running + each.held ? each.held / (each.running + each.held) : 0, [link(["jobs"], { queue: each.queue, state: "running" }, `${count(each.running)} run`), `, ${each.approximate ? "≥ " : ""}${count(each.held)} held`], { tone: each.held ? "held" : "", label: `${percent(each.held / Math.max(1, each.running + each.held))} held` })],
							["Too many", "kind minor", (each) => SATURATED[each.on_saturated] ?? each.on_saturated],
							["", "actions", (each) => h("div.tools", putLimit("Change", each, refresh), remove("concurrency-limits", "concurrency limit", each, refresh))],
						],
						limits.items,
						{ key: (each) => each.name },
					)
				: empty("No concurrency limit"),
		),
	];
}
