// The jobs there are, and what can be done to many of them.

import {
	action, asking, badge, button, change, count, dot, empty, failure, faint, form, go, h, href, jobName, name, none,
	open, pager, plural, queueName, refresh, STATES, table, tabs, time, times, tools, update, warned,
} from "../kit.js";
import { bulk } from "../bulk.js";
import { selectorOf } from "../search.js";
import { sawKinds, searchLine } from "../search_line.js";

const LABELS = { queue: "queue", kind: "kind", partition_key: "partition", tags_all: "all tags", tags_any: "any tag" };
const FILTERS = ["q", "state", ...Object.keys(LABELS)];
const FIRST = { cursor: undefined, trail: undefined };

const filtersOf = (query) => Object.fromEntries(FILTERS.filter((each) => query[each] !== undefined).map((each) => [each, query[each]]));

export async function load({ query, get }) {
	const [list, counts] = await Promise.all([
		get(["jobs"], { ...filtersOf(query), cursor: query.cursor, limit: 50 }).catch(refused),
		get(["jobs", "counts"], { queue: query.queue }),
	]);
	return { ...list, counts };
}

// A search that cannot be is told beside it, and the rest of the page stays.
function refused(error) {
	if (error.status === 400) return { jobs: [], next_cursor: null, refusal: error };
	throw error;
}

export function draw(data, { query, local }) {
	const { jobs, refusal } = data;
	const { selector, reason } = selectorOf(query);
	local.selected ??= new Set();
	sawKinds(jobs);
	return [
		h(
			"div.above",
			searchLine({ value: query.q ?? "", submit: (q) => change({ q: q || undefined, ...FIRST }) }),
			tools(
				action("All matching…", { reason, title: "Retry, cancel or delete every job of this list", run: () => bulk(selector) }),
				action("Enqueue a job", { role: "producer", run: () => go(["enqueue"], { queue: query.queue }), tone: "primary" }),
			),
		),
		stateTabs(data, query),
		chips(query),
		refusal && failure(refusal),
		local.selected.size > 0 && selectionBar(local.selected),
		jobs.length ? rows(jobs, query, local) : !refusal && nothing(data, query),
		foot(data, query),
	];
}

function nothing({ next_cursor: next }, query) {
	if (next) return empty("Nothing found so far", "The search has not come to the end; continue with Next.");
	if (Object.keys(filtersOf(query)).length) return empty("No job is like that", "Take a condition away to see more.");
	return empty("There are no jobs yet", "Enqueue one here, or from your application.");
}

function stateTabs({ counts: { approximate, counts } }, query) {
	const { state, queue, ...others } = filtersOf(query);
	// Counts know the queue alone; beside another condition they would be wrong.
	const counted = !Object.keys(others).length;
	const tab = (title, state, number) => ({
		title,
		path: ["jobs"],
		query: { ...others, queue, state },
		active: query.state === state,
		note: counted ? `${approximate ? "~" : ""}${count(number)}` : undefined,
	});
	const all = Object.values(counts).reduce((sum, number) => sum + number, 0);
	return tabs("States", [tab("all", undefined, all), ...STATES.map((each) => tab([dot(each), each], each, counts[each] ?? 0))]);
}

function chips(query) {
	const given = Object.keys(LABELS).filter((each) => query[each] !== undefined);
	const chip = (each) =>
		h(
			"span.chip",
			{ key: each },
			faint(LABELS[each]),
			name(query[each]),
			h("button", { "aria-label": `Without ${LABELS[each]}`, onclick: () => change({ [each]: undefined, ...FIRST }) }, "×"),
		);
	return given.length > 0 && h("div.chips", given.map(chip));
}

function rows(jobs, query, local) {
	const { selected } = local;
	const toggle = ({ id }, on) => (on ? selected.add(id) : selected.delete(id));
	const pickAll = ({ target }) => {
		for (const job of jobs) toggle(job, target.checked);
		update();
	};
	const pick = (job, { target, shiftKey }) => {
		const [at, last] = [job.id, local.last].map((id) => jobs.findIndex((each) => each.id === id));
		const range = shiftKey && last >= 0 ? jobs.slice(Math.min(last, at), Math.max(last, at) + 1) : [job];
		for (const each of range) toggle(each, target.checked);
		local.last = job.id;
		update();
	};
	const picked = jobs.filter(({ id }) => selected.has(id)).length;
	const box = (label, checked, onclick, indeterminate = false) => h("input", { type: "checkbox", "aria-label": label, checked, indeterminate, onclick });
	const where = (conditions) => ({ ...filtersOf(query), ...conditions });
	return table(
		"Jobs",
		[
			[
				box("Select all jobs of this page", picked === jobs.length, pickAll, picked > 0 && picked < jobs.length),
				"pick",
				(job) => box(`Select ${job.id}`, selected.has(job.id), (event) => pick(job, event)),
			],
			["State", "state", ({ state }) => badge(state)],
			["Job", "main", ({ id }) => jobName(id)],
			["Kind", "kind", ({ kind }) => h("a.name.quiet", { title: kind, href: href(["jobs"], where({ kind })) }, kind)],
			["Queue", "kind", ({ queue }) => queueName(queue, ["jobs"], where({ queue }))],
			["Partition", "kind minor", ({ partition_key }) => (partition_key ? name(partition_key, ["jobs"], { query: where({ partition_key }) }) : none())],
			["Attempt", "number", (job) => warned(job.orphaned, `${job.attempt}/${job.max_attempts}`, job.orphaned ? `${plural(job.crash_attempt, "worker")} died with it` : null)],
			times("Enqueued", "enqueued_at_ms", "time minor"),
			["When", "time", when],
		],
		jobs,
		{ key: "id", rowProps: ({ id }) => ({ class: selected.has(id) ? "selected" : "" }) },
	);
}
function when(job) {
	if (job.finalized_at_ms !== null) return ["ended ", time(job.finalized_at_ms)];
	if (job.state === "running") return ["began ", time(job.claimed_at_ms)];
	if (job.state === "quarantined" || job.state === "pending") return time(job.enqueued_at_ms);
	return ["due ", time(job.scheduled_at_ms)];
}

// The cursors lead forth alone, so that the address holds those of the pages before.
function foot({ jobs, next_cursor: next }, { cursor, trail = "" }) {
	const before = trail ? trail.split(",") : [];
	const whole = next === null && !cursor;
	return h(
		"div.foot",
		faint(jobs.length > 0 && plural(jobs.length, "job"), jobs.length > 0 && !whole && " on this page"),
		pager(
			cursor && { cursor: before.at(-1) || undefined, trail: before.slice(0, -1).join(",") || undefined },
			next && { cursor: next, trail: [...before, cursor ?? ""].join(",") },
		),
	);
}

const VERBS = {
	Retry: "Each becomes available now; its attempts stay counted.",
	Cancel: "What runs is told to stop.",
	Delete: "They are gone for good, with their history.",
};

function selectionBar(selected) {
	const what = plural(selected.size, "job");
	const act = (verb) =>
		asking(verb, {
			what,
			title: `${verb} ${what}?`,
			text: VERBS[verb],
			tone: verb === "Delete" ? "danger" : "",
			destroys: verb !== "Retry",
			small: false,
			send: ["POST", ["jobs", "actions"], { action: verb.toLowerCase(), ids: [...selected] }],
			done: ({ value }) => told(value),
			then: ({ value }) => unselect(selected, value),
		});
	const clear = () => {
		selected.clear();
		update();
	};
	return h(
		"div.selection",
		{ role: "region", "aria-label": "Selected jobs" },
		h("strong", `${what} selected`),
		Object.keys(VERBS).map(act),
		button("Clear", clear),
	);
}

export function escape({ local: { selected } }) {
	const had = selected?.size > 0;
	selected?.clear();
	return had;
}

const told = ({ failed, succeeded }) => (failed.length ? `${count(succeeded.length)} succeeded, ${count(failed.length)} failed` : `${plural(succeeded.length, "job")}: done`);

// What was acted on is not selected any more, however long the list takes to come; for what was not
// it is told why.
function unselect(selected, { failed, succeeded }) {
	for (const id of succeeded) selected.delete(id);
	update();
	refresh();
	if (!failed.length) return;
	const content = table("Failures", [["Job", "main", ({ id }) => jobName(id)], ["Why not", "prose", ({ reason }) => reason]], failed, { key: "id" });
	open((dialog) => form(dialog, { title: told({ failed, succeeded }), content }), { wide: true });
}
