// Is anything wrong, and where.

import { askable, brief, count, duration, h, href, link, now, percent, plural, queueName, section, table, together } from "../kit.js";
import { heldSection, history, HOUR_MS, mix, trafficSection } from "../flow.js";
import { byPressure, drainText, DRAINS, jobsIn, OLDEST, RATES, trend, waiting, workersOf } from "../pressure.js";

const TOP = 8;

// Ages and what is held take longer to tell, and come after the rest.
export async function load(asked) {
	const { first, get, known, page } = asked;
	const all = (path) => page([path], { limit: 200 });
	const found = await together({
		queues: all("backlog"),
		cluster: get(["cluster"]),
		quarantine: all("quarantine"),
		dead: get(["dead-letters"], { since_ms: now() - HOUR_MS }),
		traffic: history(asked, ["history"]),
	});
	const busy = found.queues.items.filter((queue) => queue.unfinished_jobs > 0);
	found.busy = byPressure(busy);
	first({ ...known, ...found });
	const fullest = busy.filter(askable).sort((a, b) => b.unfinished_jobs - a.unfinished_jobs).slice(0, TOP);
	const [{ items }, ...blocked] = await Promise.all([all("queues"), ...fullest.map(({ queue }) => get(["queues", queue, "blocked"]))]);
	return { ...found, blocked, ages: new Map(items.map((each) => [each.queue, each.oldest_available_ms])) };
}

export function draw(data, { local }) {
	const { ages, blocked, busy, queues, traffic } = data;
	return [
		h("div.glance", concerns(data), figures(data)),
		h("div.columns.wide-left", trafficSection(traffic, local), heldSection(blocked, blocked?.length === TOP ? `the ${TOP} fullest queues` : "")),
		section(
			"Queues under pressure",
			{ aside: link(["queues"], {}, "all queues"), note: busy.length > TOP ? `the first ${TOP} of ${count(busy.length)}${queues.next ? "+" : ""}` : "" },
			pressure(busy.slice(0, TOP).map((each) => ({ ...each, oldest_available_ms: ages?.get(each.queue) })), data.cluster),
		),
	];
}

const uncovered = ({ cluster, busy }) => {
	const names = new Set(busy.map(({ queue }) => queue));
	return cluster.queues.filter(({ queue, live_workers: live }) => live === 0 && names.has(queue)).map(({ queue }) => queue);
};

// What needs somebody, in sentences; the first thing to read at night.
function concerns(data) {
	const { busy, cluster, dead, quarantine } = data;
	const named = (condition) => busy.filter(condition).map(({ queue }) => queue);
	const growing = named((queue) => trend(queue) === "growing" && !queue.paused);
	const still = named((queue) => trend(queue) === "still" && !queue.paused && waiting(queue) > 0);
	const paused = named((queue) => queue.paused);
	const alone = uncovered(data);
	const { live, stale } = cluster.workers;
	const those = (names, one, many) => link(["queues"], {}, plural(names.length, `queue ${one}`, `queues ${many}`));
	const found = [
		live === 0 && busy.length > 0 && ["bad", link(["workers"], {}, "No worker is alive"), "; nothing runs."],
		alone.length > 0 && live > 0 && ["bad", those(alone, "with work has no live worker", "with work have no live worker"), listed(alone)],
		dead.count > 0 && ["bad", link(["jobs"], { state: "archived" }, `${dead.approximate ? "at least " : ""}${plural(dead.count, "job")} failed for good`), " within the last hour."],
		quarantine.items.length > 0 && ["bad", link(["quarantine"], {}, plural(quarantine.items.length, "fingerprint is", "fingerprints are"), " in quarantine"), "."],
		growing.length > 0 && ["warn", those(growing, "grows faster than it drains", "grow faster than they drain"), listed(growing)],
		still.length > 0 && ["warn", those(still, "has work and stands still", "have work and stand still"), listed(still)],
		stale > 0 && ["warn", link(["workers"], {}, plural(stale, "worker"), " went silent"), "."],
		paused.length > 0 && ["note", those(paused, "with work is paused", "with work are paused"), listed(paused)],
	].filter(Boolean);
	return h(
		"section.concerns",
		{ "aria-label": "What needs attention" },
		found.length
			? h("ul", found.map(([tone, ...text]) => h("li", { class: tone }, h("span", text))))
			: h("p.calm", busy.length ? "Everything flows." : "All is quiet: no work is waiting."),
	);
}

function listed(names) {
	const shown = names.slice(0, 3);
	const more = names.length - shown.length;
	return [": ", shown.map((each, index) => [h("span", queueName(each), index < shown.length - 1 && ","), " "]), more > 0 && `and ${count(more)} more`];
}

function figures(data) {
	const { ages, busy, cluster, dead, quarantine, queues } = data;
	const sum = (field) => queues.items.reduce((total, queue) => total + queue[field], 0);
	const [oldest] = [...(ages ?? [])].filter(([, age]) => age !== null).sort((a, b) => b[1] - a[1]);
	const [worst] = busy;
	const alone = uncovered(data).length;
	const figure = (label, value, detail, target, tone = "") =>
		h("a", { class: `figure ${tone}`, href: href(...target) }, h("span.label", label), h("strong", value), h("span.detail", detail || "\u00a0"));
	return h(
		"div.figures",
		figure("Unfinished work", `${brief(sum("unfinished_jobs"))}${queues.next ? "+" : ""}`, plural(busy.length, "queue"), [["jobs"]]),
		figure("Oldest waiting", oldest ? duration(oldest[1]) : ages ? "–" : "…", oldest ? oldest[0] : ages && "nothing waits", [["jobs"], { state: "available", queue: oldest?.[0] }]),
		figure("Worst time to drain", worst ? drainText(worst) : "–", worst ? worst.queue : "nothing to drain", [worst ? ["queues", worst.queue] : ["queues"]], worst && trend(worst) === "growing" ? "warn" : ""),
		figure("Fleet utilisation", cluster.capacity_total ? percent(cluster.utilization) : "–", `${count(cluster.inflight_total)} of ${count(cluster.capacity_total)} slots`, [["workers"]]),
		figure("Queues without workers", count(alone), plural(cluster.workers.live, "live worker"), [["queues"]], alone ? "bad" : ""),
		figure("In quarantine", `${count(quarantine.items.length)}${quarantine.next ? "+" : ""}`, "fingerprints", [["quarantine"]], quarantine.items.length ? "bad" : ""),
		figure("Dead letters, 1 h", `${dead.approximate ? "≥ " : ""}${count(dead.count)}`, "failed for good", [["jobs"], { state: "archived" }], dead.count ? "bad" : ""),
		figure("Done, 1 h", brief(Math.round(sum("drain_rate") * 3600)), "at the present rate", [["jobs"], { state: "completed" }]),
	);
}

const jobs = jobsIn(count);

const pressure = (queues, cluster) => table(
	"Queues under pressure",
	[
		["Queue", "main", (queue) => queueName(queue.queue)],
		jobs("Waiting", "available"),
		jobs("Running", "running"),
		...RATES,
		OLDEST,
		DRAINS,
		workersOf(cluster),
		["", "bar-cell", mix],
	],
	queues,
	{ key: "queue", nothing: ["No queue has work"] },
);
