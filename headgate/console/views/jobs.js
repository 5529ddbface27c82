// The jobs there are, and what can be done to many of them.

import { h } from "../dom.js";
import { get, mutate } from "../api.js";
import { change, go, href } from "../address.js";
import { ask, frame, open } from "../dialog.js";
import { count, plural, time } from "../format.js";
import { action, button, choice, empty, failure, field, link, name, none, pager, queueName, table, tabs } from "../parts.js";
import { badge, STATES } from "../states.js";
import { inWords, selectorOf } from "../search.js";
import { sawKinds, searchLine } from "../search_line.js";
import { notify } from "../notices.js";

const FILTERS = ["q", "queue", "state", "kind", "partition_key", "tags_all", "tags_any"];
const LABELS = { queue: "queue", kind: "kind", partition_key: "partition", tags_all: "all tags", tags_any: "any tag" };
const PAGE = 50;

export const title = () => "Jobs";

export async function load({ query, local, signal }) {
	const filters = Object.fromEntries(FILTERS.map((each) => [each, query[each]]));
	const [list, counts] = await Promise.all([
		get(["jobs"], { ...filters, cursor: query.cursor, limit: PAGE }, signal).catch(refused),
		get(["jobs", "counts"], { queue: query.queue }, signal),
	]);
	if (list.jobs) forgetGone(local, list.jobs);
	return { ...list, counts };
}

// A search that cannot be is told beside it, and the rest of the page stays.
function refused(error) {
	if (error.status === 400) return { jobs: [], next_cursor: null, refusal: error };
	throw error;
}

function selection(local) {
	local.selected ??= new Map();
	return local.selected;
}

function forgetGone(local, jobs) {
	const states = new Map(jobs.map((job) => [job.id, job.state]));
	for (const id of selection(local).keys()) {
		if (states.has(id)) selection(local).set(id, states.get(id));
	}
}

export function draw(data, context) {
	const { query } = context;
	sawKinds(data.jobs);
	return [
		h(
			"div.above",
			searchLine({ value: query.q ?? "", update: context.update, submit: (q) => change({ q: q || undefined, cursor: undefined, trail: undefined }) }),
			h("div.tools", bulkButton(data, context), action("Enqueue a job", { role: "producer", run: () => go(["enqueue"], { queue: query.queue }), tone: "primary" })),
		),
		stateTabs(data, query),
		chips(query),
		data.refusal && failure(data.refusal),
		selectionBar(context),
		rows(data, context),
		foot(data, context),
	];
}

const filtersOf = (query) => Object.fromEntries(FILTERS.filter((each) => query[each] !== undefined).map((each) => [each, query[each]]));

function stateTabs({ counts }, query) {
	// Counts know the queue alone; beside another condition they would be wrong.
	const counted = !query.q && !query.kind && query.partition_key === undefined && !query.tags_all && !query.tags_any;
	const total = Object.values(counts.counts).reduce((sum, number) => sum + number, 0);
	const sign = counts.approximate ? "~" : "";
	const note = (number) => (counted ? `${sign}${count(number)}` : undefined);
	const base = { ...filtersOf(query), state: undefined };
	return tabs("States", [
		{ title: "all", path: ["jobs"], query: base, active: query.state === undefined, note: note(total) },
		...STATES.map((state) => ({
			title: [h("span", { class: `dot state-${state}` }), state],
			path: ["jobs"],
			query: { ...base, state },
			active: query.state === state,
			note: note(counts.counts[state] ?? 0),
		})),
	]);
}

function chips(query) {
	const given = Object.keys(LABELS).filter((each) => query[each] !== undefined);
	if (!given.length) return null;
	return h(
		"div.chips",
		given.map((each) =>
			h(
				"span.chip",
				{ key: each },
				h("span.faint", LABELS[each]),
				name(query[each]),
				h("button", { type: "button", "aria-label": `Without ${LABELS[each]}`, onclick: () => change({ [each]: undefined, cursor: undefined, trail: undefined }) }, "×"),
			),
		),
	);
}

function rows(data, context) {
	const { query, local } = context;
	const selected = selection(local);
	const { jobs } = data;
	if (!jobs.length) {
		if (data.refusal) return null;
		if (data.next_cursor) return empty("Nothing found so far", "The search has not come to the end; continue with Next.");
		return Object.keys(filtersOf(query)).length ? empty("No job is like that") : empty("There are no jobs yet", "Enqueue one here, or from your application.");
	}
	const all = jobs.every((job) => selected.has(job.id));
	const toggle = (job, on) => {
		if (on) selected.set(job.id, job.state);
		else selected.delete(job.id);
	};
	const pick = (job, index, event) => {
		const on = event.target.checked;
		const last = jobs.findIndex((each) => each.id === local.last);
		if (event.shiftKey && last >= 0) {
			for (const each of jobs.slice(Math.min(last, index), Math.max(last, index) + 1)) toggle(each, on);
		}
		toggle(job, on);
		local.last = job.id;
		context.update();
	};
	const without = { ...filtersOf(query), cursor: undefined };
	const where = (conditions) => ({ ...without, ...conditions });
	return table(
		"Jobs",
		[
			[
				h("input", {
					type: "checkbox",
					"aria-label": "Select all jobs of this page",
					checked: all,
					indeterminate: !all && jobs.some((job) => selected.has(job.id)),
					onclick: (event) => {
						for (const job of jobs) toggle(job, event.target.checked);
						context.update();
					},
				}),
				"pick",
				(job) => h("input", { type: "checkbox", "aria-label": `Select ${job.id}`, checked: selected.has(job.id), onclick: (event) => pick(job, jobs.indexOf(job), event) }),
			],
			["State", "state", (job) => badge(job.state)],
			["Job", "main", (job) => name(job.id, { path: ["jobs", job.id], mono: true })],
			["Kind", "kind", (job) => h("a.name.quiet", { title: job.kind, href: href(["jobs"], where({ kind: job.kind })) }, job.kind)],
			["Queue", "kind", (job) => queueName(job.queue, ["jobs"], where({ queue: job.queue }))],
			["Partition", "kind minor", (job) => (job.partition_key ? name(job.partition_key, { path: ["jobs"], query: where({ partition_key: job.partition_key }) }) : none())],
			["Attempt", "number", (job) => h("span", { class: job.orphaned ? "warn-text" : "", title: job.orphaned ? `${plural(job.crash_attempt, "worker")} died with it` : null }, `${job.attempt}/${job.max_attempts}`)],
			["Enqueued", "time minor", (job) => time(job.enqueued_at_ms)],
			["When", "time", (job) => when(job)],
		],
		jobs,
		{ key: (job) => job.id, rowProps: (job) => ({ class: selected.has(job.id) ? "selected" : "" }) },
	);
}

// The time that matters most in the state.
function when(job) {
	if (job.finalized_at_ms !== null) return ["ended ", time(job.finalized_at_ms)];
	if (job.state === "running") return ["since ", time(job.claimed_at_ms)];
	if (job.state === "quarantined" || job.state === "pending") return time(job.enqueued_at_ms);
	return ["due ", time(job.scheduled_at_ms)];
}

function foot(data, { query }) {
	const trail = query.trail ? query.trail.split(",") : [];
	const base = filtersOf(query);
	const first = data.jobs.length && !query.cursor;
	const text = data.next_cursor === null && first ? plural(data.jobs.length, "job") : data.jobs.length ? `${plural(data.jobs.length, "job")} on this page` : "";
	return h(
		"div.foot",
		h("span.faint", { "data-shown": data.jobs.length }, text),
		pager({
			previous: query.cursor && { path: ["jobs"], query: { ...base, cursor: trail.at(-1) || undefined, trail: trail.slice(0, -1).join(",") || undefined } },
			next: data.next_cursor && { path: ["jobs"], query: { ...base, cursor: data.next_cursor, trail: [...trail, query.cursor ?? ""].join(",") } },
		}),
	);
}

const VERBS = { retry: "Retry", cancel: "Cancel", delete: "Delete" };

function selectionBar(context) {
	const selected = selection(context.local);
	if (!selected.size) return null;
	const act = (verb, tone) => action(VERBS[verb], { tone, run: () => actOn([...selected.keys()], verb, context) });
	return h(
		"div.selection",
		{ role: "region", "aria-label": "Selected jobs" },
		h("strong", `${plural(selected.size, "job")} selected`),
		act("retry"),
		act("cancel"),
		act("delete", "danger"),
		button("Clear", () => {
			selected.clear();
			context.update();
		}),
	);
}

export function escape({ local }) {
	const had = selection(local).size > 0;
	selection(local).clear();
	return had;
}

async function actOn(ids, verb, context) {
	const destroys = verb !== "retry";
	const answer = await ask({
		title: `${VERBS[verb]} ${plural(ids.length, "job")}?`,
		text: { retry: "Each becomes available now; its attempts stay counted.", cancel: "What runs is told to stop.", delete: "They are gone for good, with their history." }[verb],
		confirm: `${VERBS[verb]} ${plural(ids.length, "job")}`,
		tone: destroys ? "danger" : "primary",
		run: async (_, key) => (await mutate("POST", ["jobs", "actions"], { action: verb, ids }, { key })).value,
	});
	if (!answer) return;
	for (const id of answer.succeeded) selection(context.local).delete(id);
	// What was acted on is not selected any more, however long the list takes to come.
	context.update();
	context.refresh();
	if (!answer.failed.length) {
		notify(`${plural(answer.succeeded.length, "job")}: done`);
		return;
	}
	open((dialog) =>
		frame(dialog, {
			title: `${count(answer.succeeded.length)} succeeded, ${count(answer.failed.length)} failed`,
			content: table(
				"Failures",
				[
					["Job", "main", (each) => name(each.id, { path: ["jobs", each.id], mono: true })],
					["Why not", "prose", (each) => each.reason],
				],
				answer.failed,
			),
		}),
		{ wide: true },
	);
}

function bulkButton(data, context) {
	const { selector, reason } = selectorOf(context.query);
	return action("All matching…", { reason, title: "Retry, cancel or delete every job of this list", run: () => bulk(selector, context) });
}

// Bulk work: first how many, then whether, then how far.
export async function bulk(selector, { refresh }) {
	const id = await open((dialog) => {
		const { state } = dialog;
		state.action ??= ["archived", "cancelled", "undecodable"].includes(selector.state) ? "retry" : "cancel";
		const body = { action: state.action, selector: { ...selector, ...(state.hours ? { older_than_ms: Math.round(Number(state.hours) * 3_600_000) } : {}) } };
		const destroys = state.action !== "retry";
		const set = (changes) => {
			Object.assign(state, changes, { estimate: undefined });
			dialog.update();
		};
		const counted = state.estimate !== undefined;
		return frame(dialog, {
			title: counted ? `${VERBS[state.action]} ${plural(state.estimate, "job")}?` : "All matching jobs",
			text: `Every job with ${inWords(selector)}.`,
			content: [
				h(
					"div.pair",
					field("What to do", choice({ name: "action", value: state.action, onchange: (event) => set({ action: event.target.value }) }, Object.entries(VERBS))),
					field("Only if enqueued more than … hours ago", h("input", { name: "hours", type: "number", min: "0", step: "any", inputmode: "decimal", oninput: (event) => set({ hours: event.target.value }) })),
				),
				state.action === "retry" && !selector.state && h("p.faint", "Without a state in the list, retry takes archived jobs alone."),
				counted && h("p.estimate", { role: "status" }, `A dry run counted ${plural(state.estimate, "job")} that this would ${state.action}.`),
			],
			confirm: counted ? `${VERBS[state.action]} ${plural(state.estimate, "job")}` : "Count them (dry run)",
			tone: counted && destroys ? "danger" : "primary",
			disabled: counted && state.estimate === 0,
			submit: () =>
				dialog.run(async () => {
					const answer = (await mutate("POST", ["jobs", "bulk"], { ...body, dry_run: !counted }, counted ? { key: dialog.key } : {})).value;
					if (counted) dialog.close(answer.id);
					else state.estimate = answer.total_estimated;
				}),
		});
	});
	if (!id) return;
	await follow(id);
	refresh();
}

// Shows how far an operation has come, until it is over or the dialog is closed.
function follow(id) {
	let timer = 0;
	return open((dialog) => {
		const { state } = dialog;
		const over = state.operation && !["pending", "running"].includes(state.operation.status);
		const look = async () => {
			try {
				state.operation = await get(["operations", id]);
				dialog.error = null;
			} catch (error) {
				dialog.error = error;
			}
			timer = 0;
			dialog.update();
		};
		if (!timer && !over) timer = setTimeout(look, state.operation ? 800 : 0);
		const { affected = 0, total_estimated: total = 0, status = "pending", error } = state.operation ?? {};
		return frame(dialog, {
			title: over ? `The operation is ${status}` : "Working through the jobs",
			content: [
				h("progress", { max: Math.max(1, total), value: Math.min(affected, Math.max(1, total)), "aria-label": "Progress" }),
				h("p", { role: "status" }, `${count(affected)} of about ${count(total)} done · ${status}`),
				error && h("p.failure", error),
				h("p", link(["operations", id], {}, "Follow it under Operations"), status === "pending" ? " – workers do it in batches, in turns with their other duties." : ""),
			],
		});
	});
}
