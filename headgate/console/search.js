// The search line: its grammar, and what to suggest while somebody writes.

import { splitOnce } from "./address.js";
import { duration } from "./format.js";
import { STATES } from "./states.js";

export const FIELDS = ["id", "queue", "state", "kind", "partition", "rate_class", "fingerprint", "priority", "tag", "tag_any"];
// What bulk work selects by, and how the search line calls it.
const CONDITIONS = { queue: "queue", state: "state", kind: "kind", partition_key: "partition" };
const MOST = 12;

// The conditions of a list as a selection for bulk work; `reason` says why there is none.
export function selectorOf(query) {
	const names = Object.keys(CONDITIONS);
	const selector = Object.fromEntries(names.filter((name) => query[name] !== undefined).map((name) => [name, query[name]]));
	if (query.tags_all || query.tags_any) return { reason: "bulk work cannot select by tag" };
	for (const term of query.q?.split(/\s+/).filter(Boolean) ?? []) {
		const [field, value] = splitOnce(term, ":");
		if (value === undefined) return { reason: `bulk work cannot select the beginning of a kind: write kind:${term}…` };
		const name = names.find((each) => CONDITIONS[each] === field);
		if (!name) return { reason: `bulk work cannot select by ${field}` };
		selector[name] = value;
	}
	if (!Object.keys(selector).length) return { reason: "narrow the list by a state, a queue, a kind or a partition first" };
	return { selector };
}
export function inWords({ older_than_ms: older, ...selector }) {
	const words = Object.entries(selector).map(([name, value]) => `${CONDITIONS[name] ?? name} ${value === "" ? "(none)" : value}`);
	return [...words, ...(older ? [`older than ${duration(older)}`] : [])].join(", ");
}

// Whole lines that the last word of `line` may become.
export function suggestions(line, { queues, kinds }) {
	const word = /\S*$/u.exec(line)[0];
	const before = line.slice(0, line.length - word.length);
	const [field, value] = splitOnce(word, ":");
	const values = { state: STATES, queue: queues, kind: kinds };
	const all = (name) => (values[name] ?? []).filter((each) => !/\s/u.test(each)).map((each) => `${name}:${each}`);
	const found = value === undefined ? [...FIELDS.map((each) => `${each}:`), ...(word ? all("kind") : [])] : all(field);
	return found.filter((text) => text !== word && (text.startsWith(word) || text.startsWith(`kind:${word}`))).slice(0, MOST).map((text) => before + text);
}
