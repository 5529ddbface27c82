// The search line: its grammar, and what to suggest while somebody writes.

import { STATES } from "./states.js";

export const FIELDS = ["id", "queue", "state", "kind", "partition", "rate_class", "fingerprint", "priority", "tag", "tag_any"];
const SELECTOR = { queue: "queue", state: "state", kind: "kind", partition: "partition_key" };
const CONDITIONS = ["queue", "state", "kind", "partition_key"];

export function terms(q) {
	return (q ?? "")
		.split(/\s+/)
		.filter(Boolean)
		.map((term) => {
			const at = term.indexOf(":");
			return at < 0 ? { text: term } : { field: term.slice(0, at), value: term.slice(at + 1) };
		});
}

// The same conditions as a selection for bulk work; `reason` says why there is none.
export function selectorOf(query) {
	const selector = {};
	for (const field of CONDITIONS) {
		if (query[field] !== undefined) selector[field] = query[field];
	}
	if (query.tags_all || query.tags_any) return { reason: "bulk work cannot select by tag" };
	for (const { field, value, text } of terms(query.q)) {
		if (text) return { reason: `bulk work cannot select the beginning of a kind: write kind:${text}…` };
		if (!SELECTOR[field]) return { reason: `bulk work cannot select by ${field}` };
		selector[SELECTOR[field]] = value;
	}
	if (!Object.keys(selector).length) return { reason: "narrow the list by a state, a queue, a kind or a partition first" };
	return { selector };
}

export function inWords(selector) {
	const words = {
		state: (value) => `state ${value}`,
		queue: (value) => `queue ${value || "(no name)"}`,
		kind: (value) => `kind ${value}`,
		partition_key: (value) => `partition ${value || "(none)"}`,
	};
	return CONDITIONS.filter((field) => field in selector).map((field) => words[field](selector[field])).join(", ");
}

// Whole lines that the last word of `line` may become.
export function suggestions(line, { queues, kinds }) {
	const word = /\S*$/u.exec(line)[0];
	const before = line.slice(0, line.length - word.length);
	const [field, value] = word.includes(":") ? [word.slice(0, word.indexOf(":")), word.slice(word.indexOf(":") + 1)] : [null, word];
	const values = { state: STATES, queue: queues, kind: kinds };
	const found =
		field === null
			? [...FIELDS.map((each) => `${each}:`), ...kinds.filter((kind) => kind.startsWith(value) && value).map((kind) => `kind:${kind}`)].filter((text) => text.startsWith(word) || text.startsWith(`kind:${word}`))
			: (values[field] ?? []).filter((each) => each.startsWith(value) && !/\s/u.test(each)).map((each) => `${field}:${each}`);
	return found.filter((text) => text !== word).slice(0, 12).map((text) => before + text);
}
