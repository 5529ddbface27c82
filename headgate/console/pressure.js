// How hard work presses on a queue, in numbers and in words.

import { bad, count, duration, link, none, rate, warned } from "./kit.js";

export const waiting = (queue) => queue.by_state.available ?? 0;

// `growing`: more comes in than is done. `still`: nothing is done at all. Otherwise it drains.
export function trend(queue) {
	if (queue.unfinished_jobs === 0) return "empty";
	if (queue.time_to_drain_ms !== null) return "draining";
	return queue.arrival_rate || queue.drain_rate ? "growing" : "still";
}

export function drainText(queue) {
	const found = trend(queue);
	if (found === "draining") return duration(queue.time_to_drain_ms);
	if (found === "still") return queue.paused ? "paused" : "standing still";
	return found;
}

const RANK = { growing: 2, still: 1 };

// The queues with work in the order of their pressure, the worst first.
export function byPressure(queues) {
	const rank = (queue) => RANK[trend(queue)] ?? 0;
	return [...queues].sort(
		(a, b) =>
			rank(b) - rank(a) ||
			(b.time_to_drain_ms ?? 0) - (a.time_to_drain_ms ?? 0) ||
			b.unfinished_jobs - a.unfinished_jobs,
	);
}
export const jobsIn = (say) => (title, state, kind = "number") => [title, kind, ({ queue, by_state: states }) => link(["jobs"], { queue, state }, say(states[state] ?? 0))];
export const RATES = [
	["In", "number", (queue) => rate(queue.arrival_rate)],
	["Out", "number", (queue) => rate(queue.drain_rate)],
];
export const oldest = ({ oldest_available_ms: age }) => (age === undefined ? "…" : age === null ? none() : duration(age));
export const OLDEST = ["Oldest", "number", oldest];
export const DRAINS = ["Drains in", "number", (queue) => warned(trend(queue) === "growing", drainText(queue))];

export function workersOf(cluster) {
	const live = new Map(cluster.queues.map((each) => [each.queue, each.live_workers]));
	return ["Workers", "number", ({ queue, unfinished_jobs: work }) => bad(!live.get(queue) && work > 0, count(live.get(queue) ?? 0))];
}
