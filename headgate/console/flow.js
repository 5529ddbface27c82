// What flows through a gate, and what is held there: for one queue or for all.

import { count, empty, filled, h, here, level, now, section, shares, tabs, traffic, update } from "./kit.js";

export const HOUR_MS = 3_600_000;
const RANGES = {
	"1h": { spanMs: HOUR_MS, stepMs: 60_000 },
	"6h": { spanMs: 6 * HOUR_MS, stepMs: 300_000 },
	"24h": { spanMs: 24 * HOUR_MS, stepMs: 900_000 },
	"7d": { spanMs: 168 * HOUR_MS, stepMs: 2 * HOUR_MS },
};

const rangeOf = (query) => (query.range in RANGES ? query.range : "1h");

// The traffic in the range, as the history at `path` tells it. A step that has only begun would look
// like a fall.
export async function history({ query, get }, path) {
	const { spanMs, stepMs } = RANGES[rangeOf(query)];
	const since = Math.floor((now() - spanMs) / stepMs) * stepMs;
	return { stepMs, buckets: filled(await get(path, { since_ms: since, bucket_ms: stepMs }), since, now() - stepMs, stepMs) };
}

// `local` keeps what the pointer is on.
export function trafficSection({ buckets, stepMs }, local) {
	const { path, query } = here();
	const range = rangeOf(query);
	const sum = (field) => count(buckets.reduce((total, each) => total + each[field], 0));
	const point = (index) => {
		local.pointed = index;
		update();
	};
	return section(
		"Traffic",
		{ aside: tabs("Range", Object.keys(RANGES).map((each) => ({ title: each, path, query: { ...query, range: each === "1h" ? undefined : each }, active: each === range }))) },
		traffic(buckets, { stepMs, pointed: local.pointed, point, label: `In ${range}: ${sum("arrived")} jobs arrived, ${sum("completed")} were completed.` }),
	);
}

const REASONS = {
	queue_paused: "queue paused",
	schedule: "not due yet",
	quarantine: "in quarantine",
	rate_class: "rate class is out of tokens",
	concurrency_limit: "concurrency limit reached",
	sticky_worker: "waits for its worker",
};

// What holds the jobs that wait, by the answers about some queues, once they are there.
export function heldSection(answers, note) {
	const blocked = answers ?? [];
	const total = (number) => blocked.reduce((sum, each) => sum + number(each), 0);
	const waiting = total((each) => each.waiting);
	const held = Object.entries(REASONS).map(([reason, text]) => [text, total((each) => each.reasons[reason]), "held"]).filter(([, number]) => number > 0);
	const free = waiting - held.reduce((sum, [, number]) => sum + number, 0);
	const rows = [...held.sort((a, b) => b[1] - a[1]), ["only for a free worker", Math.max(0, free), "free"]];
	return section(
		"Held at the gate",
		{ note },
		waiting
			? h("ul.reasons", rows.map(([reason, number, tone]) => h("li", { key: reason }, h("span", reason), level(number / waiting, count(number), { tone }))))
			: empty(answers ? "Nothing waits" : "Asking…"),
	);
}
export function mix({ by_state: states }) {
	const found = ["running", "available", "retryable", "scheduled", "pending"].filter((state) => states[state]).map((state) => ({ part: states[state], tone: `state-${state}`, title: `${count(states[state])} ${state}` }));
	return shares(found, found.reduce((sum, { part }) => sum + part, 0), found.map(({ title }) => title).join(", ") || "no unfinished jobs");
}
