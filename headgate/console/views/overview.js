// Is anything wrong, and where.

import { h } from "../dom.js";
import { get, now, page } from "../api.js";
import { href } from "../address.js";
import { filled, level, shares, traffic } from "../charts.js";
import { brief, count, duration, percent, plural, rate } from "../format.js";
import { empty, link, none, queueName, section, table, tabs } from "../parts.js";
import { byPressure, drainText, REASONS, trend, waiting } from "../pressure.js";

const HOUR_MS = 3_600_000;
export const RANGES = {
	"1h": { spanMs: HOUR_MS, stepMs: 60_000 },
	"6h": { spanMs: 6 * HOUR_MS, stepMs: 300_000 },
	"24h": { spanMs: 24 * HOUR_MS, stepMs: 900_000 },
	"7d": { spanMs: 168 * HOUR_MS, stepMs: 2 * HOUR_MS },
};
const TOP = 8;

export const title = () => "Overview";

export async function load({ query, signal }) {
	const { spanMs, stepMs } = RANGES[query.range] ?? RANGES["1h"];
	const since = Math.floor((now() - spanMs) / stepMs) * stepMs;
	const [queues, cluster, quarantine, dead, history] = await Promise.all([
		page(["queues"], { limit: 200 }, signal),
		get(["cluster"], {}, signal),
		page(["quarantine"], { limit: 200 }, signal),
		get(["dead-letters"], { since_ms: now() - HOUR_MS }, signal),
		get(["history"], { since_ms: since, bucket_ms: stepMs }, signal),
	]);
	const fullest = queues.items
		.filter((queue) => queue.unfinished_jobs > 0)
		.sort((a, b) => b.unfinished_jobs - a.unfinished_jobs)
		.slice(0, TOP);
	const blocked = await Promise.all(fullest.map((queue) => get(["queues", queue.queue, "blocked"], {}, signal)));
	return { queues, cluster, quarantine, dead, blocked, buckets: filled(history, since, now(), stepMs), stepMs };
}

export function draw(data, context) {
	const queues = byPressure(data.queues.items.filter((queue) => queue.unfinished_jobs > 0));
	return [
		h("div.glance", concerns(data), figures(data)),
		h(
			"div.columns.wide-left",
			flow(data, context),
			held(data),
		),
		section(
			"Queues under pressure",
			{ aside: link(["queues"], {}, "all queues"), note: queues.length > TOP ? `the first ${TOP} of ${count(queues.length)}${data.queues.next ? "+" : ""}` : "" },
			queues.length ? pressure(queues.slice(0, TOP), data.cluster) : empty("No queue has work"),
		),
	];
}

const uncovered = ({ cluster, queues }) => {
	const busy = new Map(queues.items.map((queue) => [queue.queue, queue]));
	return cluster.queues.filter((each) => each.live_workers === 0 && (busy.get(each.queue)?.unfinished_jobs ?? 0) > 0);
};

// What needs somebody, in sentences; the first thing to read at night.
function concerns(data) {
	const queues = data.queues.items;
	const growing = queues.filter((queue) => trend(queue) === "growing" && !queue.paused);
	const still = queues.filter((queue) => trend(queue) === "still" && !queue.paused && waiting(queue) > 0);
	const paused = queues.filter((queue) => queue.paused && queue.unfinished_jobs > 0);
	const alone = uncovered(data);
	const { live, stale } = data.cluster.workers;
	const found = [
		live === 0 && queues.some((queue) => queue.unfinished_jobs > 0) && ["bad", link(["workers"], {}, "No worker is alive"), "; nothing runs."],
		alone.length > 0 && live > 0 && ["bad", link(["queues"], {}, plural(alone.length, "queue with work has", "queues with work have"), " no live worker"), listed(alone.map((each) => each.queue))],
		data.dead.count > 0 && ["bad", link(["jobs"], { state: "archived" }, `${data.dead.approximate ? "at least " : ""}${plural(data.dead.count, "job")} failed for good`), " within the last hour."],
		data.quarantine.items.length > 0 && ["bad", link(["quarantine"], {}, `${plural(data.quarantine.items.length, "fingerprint is", "fingerprints are")} in quarantine`), "."],
		growing.length > 0 && ["warn", link(["queues"], {}, `${plural(growing.length, "queue grows", "queues grow")} faster than they drain`), listed(growing.map((each) => each.queue))],
		still.length > 0 && ["warn", link(["queues"], {}, `${plural(still.length, "queue has", "queues have")} work and ${still.length === 1 ? "stands" : "stand"} still`), listed(still.map((each) => each.queue))],
		stale > 0 && ["warn", link(["workers"], {}, `${plural(stale, "worker")} went silent`), "."],
		paused.length > 0 && ["note", link(["queues"], {}, `${plural(paused.length, "queue")} with work ${paused.length === 1 ? "is" : "are"} paused`), listed(paused.map((each) => each.queue))],
	].filter(Boolean);
	return h(
		"section.concerns",
		{ "aria-label": "What needs attention" },
		found.length
			? h("ul", found.map(([tone, ...text]) => h("li", { class: tone }, h("span", text))))
			: h("p.calm", queues.some((queue) => queue.unfinished_jobs > 0) ? "Everything flows." : "All is quiet: no work is waiting."),
	);
}

function listed(names) {
	const shown = names.slice(0, 3);
	const more = names.length - shown.length;
	return [": ", shown.map((each, index) => [h("span", queueName(each), index < shown.length - 1 && ","), " "]), more > 0 && `and ${count(more)} more`];
}

function figures(data) {
	const queues = data.queues.items;
	const more = data.queues.next ? "+" : "";
	const unfinished = queues.reduce((sum, queue) => sum + queue.unfinished_jobs, 0);
	const oldest = queues.reduce((worst, queue) => ((queue.oldest_available_ms ?? -1) > (worst?.oldest_available_ms ?? -1) ? queue : worst), null);
	const [worst] = byPressure(queues.filter((queue) => queue.unfinished_jobs > 0));
	const { cluster } = data;
	const alone = uncovered(data).length;
	const figure = (label, value, detail, target, tone = "") =>
		h("a", { class: `figure ${tone}`, href: target }, h("span.label", label), h("strong", value), h("span.detail", detail || "\u00a0"));
	const has = (queue) => queue && (queue.oldest_available_ms ?? null) !== null;
	return h(
		"div.figures",
		figure("Unfinished work", `${brief(unfinished)}${more}`, plural(queues.filter((queue) => queue.unfinished_jobs > 0).length, "queue"), href(["jobs"])),
		figure("Oldest waiting", has(oldest) ? duration(oldest.oldest_available_ms) : "–", has(oldest) ? oldest.queue : "nothing waits", has(oldest) ? href(["jobs"], { state: "available", queue: oldest.queue }) : href(["jobs"], { state: "available" })),
		figure("Worst time to drain", worst ? drainText(worst) : "–", worst ? worst.queue : "nothing to drain", worst ? href(["queues", worst.queue]) : href(["queues"]), worst && trend(worst) === "growing" ? "warn" : ""),
		figure("Fleet utilisation", cluster.capacity_total ? percent(cluster.utilization) : "–", `${count(cluster.inflight_total)} of ${count(cluster.capacity_total)} slots`, href(["workers"])),
		figure("Queues without workers", count(alone), plural(cluster.workers.live, "live worker"), href(["queues"]), alone ? "bad" : ""),
		figure("In quarantine", `${count(data.quarantine.items.length)}${data.quarantine.next ? "+" : ""}`, "fingerprints", href(["quarantine"]), data.quarantine.items.length ? "bad" : ""),
		figure("Dead letters, 1 h", `${data.dead.approximate ? "≥ " : ""}${count(data.dead.count)}`, "failed for good", href(["jobs"], { state: "archived" }), data.dead.count ? "bad" : ""),
		figure("Done, 1 h", brief(doneOf(queues)), "at the present rate", href(["jobs"], { state: "completed" })),
	);
}

const doneOf = (queues) => Math.round(queues.reduce((sum, queue) => sum + queue.drain_rate, 0) * 3600);

function flow({ buckets, stepMs }, context) {
	const range = context.query.range in RANGES ? context.query.range : "1h";
	const sum = (field) => buckets.reduce((total, each) => total + each[field], 0);
	return section(
		"Traffic",
		{
			aside: tabs("Range", Object.keys(RANGES).map((each) => ({ title: each, path: [], query: { range: each === "1h" ? undefined : each }, active: each === range }))),
		},
		traffic(buckets, {
			stepMs,
			pointed: context.local.pointed,
			point: (index) => {
				context.local.pointed = index;
				context.update();
			},
			label: `In ${range}: ${count(sum("arrived"))} jobs arrived, ${count(sum("completed"))} were completed.`,
		}),
	);
}

function held({ blocked }) {
	const sums = Object.keys(REASONS).map((reason) => [reason, blocked.reduce((sum, each) => sum + each.reasons[reason], 0)]);
	const total = blocked.reduce((sum, each) => sum + each.waiting, 0);
	const heldBack = sums.reduce((sum, [, number]) => sum + number, 0);
	const rows = [...sums.filter(([, number]) => number > 0).sort((a, b) => b[1] - a[1]), ["free", Math.max(0, total - heldBack)]];
	return section(
		"Held at the gate",
		{ note: blocked.length === TOP ? `the ${TOP} fullest queues` : "" },
		total === 0
			? empty("Nothing waits")
			: h(
					"ul.reasons",
					rows.map(([reason, number]) =>
						h("li", { key: reason }, h("span.reason", reason === "free" ? "only for a free worker" : REASONS[reason]), level(number / total, count(number), { tone: reason === "free" ? "free" : "held" })),
					),
				),
	);
}

function pressure(queues, cluster) {
	const workers = new Map(cluster.queues.map((each) => [each.queue, each.live_workers]));
	return table(
		"Queues under pressure",
		[
			["Queue", "main", (queue) => queueName(queue.queue)],
			["Waiting", "number", (queue) => link(["jobs"], { queue: queue.queue, state: "available" }, count(waiting(queue)))],
			["Running", "number", (queue) => link(["jobs"], { queue: queue.queue, state: "running" }, count(queue.by_state.running ?? 0))],
			["In", "number", (queue) => rate(queue.arrival_rate)],
			["Out", "number", (queue) => rate(queue.drain_rate)],
			["Oldest", "number", (queue) => (queue.oldest_available_ms === null ? none() : duration(queue.oldest_available_ms))],
			["Drains in", "number", (queue) => h("span", { class: trend(queue) === "growing" ? "warn-text" : "" }, drainText(queue))],
			["Workers", "number", (queue) => h("span", { class: (workers.get(queue.queue) ?? 0) === 0 && queue.unfinished_jobs > 0 ? "bad-text" : "" }, count(workers.get(queue.queue) ?? 0))],
			["", "bar-cell", (queue) => mix(queue)],
		],
		queues,
		{ key: (queue) => queue.queue },
	);
}

// The unfinished jobs of a queue by state.
export function mix(queue) {
	const states = ["running", "available", "retryable", "scheduled", "pending"];
	return shares(
		states.map((state) => ({ part: queue.by_state[state] ?? 0, tone: `state-${state}`, title: `${count(queue.by_state[state] ?? 0)} ${state}` })),
		states.reduce((sum, state) => sum + (queue.by_state[state] ?? 0), 0),
		states.filter((state) => queue.by_state[state]).map((state) => `${count(queue.by_state[state])} ${state}`).join(", ") || "no unfinished jobs",
	);
}
