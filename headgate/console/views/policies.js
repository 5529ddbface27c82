// What the gate obeys: rate classes and concurrency limits.

import {
	askable, asking, brief, buttons, check, choice, count, counts, duration, h, level, link, name, none, number, offsetPager, pair, percent,
	queueName, section, table, tagged, text, together,
} from "../kit.js";

const SATURATED = { queue: "it waits", discard: "it is archived", cancel_incoming: "it is cancelled", cancel_running: "the oldest that runs is cancelled" };

// How far the limits are used takes longer to tell, and comes after the rest.
export async function load({ first, get, known, page }) {
	const found = await together({ classes: page(["rate-classes"]), limits: page(["concurrency-limits"], { cursor: undefined }) });
	first({ ...known, ...found });
	const ask = async ({ queue }) => [queue, await together({ blocked: get(["queues", queue, "blocked"]), jobs: get(["jobs", "counts"], { queue }) })];
	return { ...found, seen: new Map(await Promise.all(found.limits.items.filter(askable).map(ask))) };
}

const setting = (label, kind, known, title, extra) =>
	asking(label, {
		...extra,
		role: "admin",
		title: known ? `${title} ${known.name}` : `New ${title.toLowerCase()}`,
		confirm: "Set",
		fields: () => [!known && text("Name", "name", { required: true }), extra.fields()],
		send: (values) => ["PUT", [kind, known?.name ?? values.name], extra.body(values)],
	});

const putClass = (label, known) =>
	setting(label, "rate-classes", known, "Rate class", {
		body: ({ limit, seconds, burst, paused }) => ({ limit: Number(limit), window_ms: Math.round(Number(seconds) * 1000), burst: burst === "" ? null : Number(burst), paused: paused === "on" }),
		fields: () => [
			pair(
				number("Tokens per window", "limit", { required: true, value: known?.limit_per_window ?? 100, min: 0 }),
				number("Window in seconds", "seconds", { required: true, value: (known?.window_ms ?? 60_000) / 1000, min: 0.001, step: "any" }),
			),
			number("Saved up at most", "burst", { value: known?.burst ?? "", min: 1 }, "Empty: those of one window."),
			check("Paused: let nothing pass", "paused", { checked: known?.paused }),
			known?.paused && h("p.faint", "A paused class has forgotten its limit: set it anew when you let it go on."),
		],
	});

const putLimit = (label, known) =>
	setting(label, "concurrency-limits", known, "Concurrency limit", {
		body: ({ queue, most, saturated }) => ({ queue, max_concurrent: Number(most), on_saturated: saturated }),
		fields: () => [
			pair(text("Queue", "queue", { required: true, value: known?.queue ?? "" }), number("Running at most, in each partition", "most", { required: true, value: known?.max_concurrent ?? 1, min: 1 })),
			choice("A job that is too many", { name: "saturated", value: known?.on_saturated ?? "queue" }, SATURATED),
		],
	});

const actions = (put, kind, what) =>
	buttons((known) => [
		put("Change", known),
		asking("Delete", { role: "admin", tone: "danger", what: `1 ${what}`, title: `Delete ${known.name}?`, text: `Its jobs run without ${what} from now on.`, send: ["DELETE", [kind, known.name]] }),
	]);

function saturation(queue, seen) {
	if (!seen) return "…";
	const held = seen.blocked.reasons.concurrency_limit;
	const running = seen.jobs.counts.running ?? 0;
	const part = held / Math.max(1, running + held);
	const said = [link(["jobs"], { queue, state: "running" }, `${count(running)} run`), `, ${seen.blocked.approximate ? "≥ " : ""}${count(held)} held`];
	return level(part, said, { tone: held ? "held" : "", label: `${percent(part)} held` });
}

export const draw = ({ classes, limits, seen }) => [
	section(
		"Rate classes",
		{ aside: putClass("New rate class"), note: "tokens come in per window, and jobs take them" },
		table(
			"Rate classes",
			[
				["Class", "main", (each) => tagged(name(each.name, ["jobs"], { query: { q: `rate_class:${each.name}` } }), each.paused && "paused")],
				["Level now", "share", ({ burst, tokens_available: tokens }) => level(tokens / burst, `${brief(tokens)} of ${brief(burst)}`, { tone: tokens === 0 ? "held" : "" })],
				["Comes in", "number", (each) => (each.paused ? none() : `${count(each.limit_per_window)} per ${duration(each.window_ms)}`)],
				["Waiting", "number", ({ jobs_waiting: waiting }) => `${count(waiting)}${waiting >= 1000 ? "+" : ""}`],
				actions(putClass, "rate-classes", "rate class"),
			],
			classes.items,
			{ key: "name", nothing: ["No rate class", "Jobs of a class that is not set here run unlimited."] },
		),
	),
	offsetPager(classes),
	section(
		"Concurrency limits",
		{ aside: putLimit("New limit"), note: "how much of each partition of a queue runs at a time" },
		table(
			"Concurrency limits",
			[
				["Limit", "main", (each) => name(each.name)],
				["Queue", "kind", ({ queue }) => queueName(queue)],
				counts("At most", "max_concurrent"),
				["Saturation", "share", ({ queue }) => saturation(queue, seen?.get(queue))],
				["Too many", "kind minor", ({ on_saturated: policy }) => SATURATED[policy] ?? policy],
				actions(putLimit, "concurrency-limits", "concurrency limit"),
			],
			limits.items,
			{ key: "name", nothing: ["No concurrency limit", "Partitions run what workers take."] },
		),
	),
];
