// One job: its life so far, and why it does not run.

import {
	area, asking, asText, badge, button, bytes, contents, copy, count, dot, duration, empty, exact, facts, failure, faint,
	fromBase64, get, go, h, level, link, LIVE, missing, name, notify, now, plural, queueName, refresh, section, sees, session, text,
	time, toBase64, together, tools, unfit, update, visible, visibleLines, warned,
} from "../kit.js";
import { explain } from "../explain.js";

// What the SDK puts before what it has encrypted.
const SEALED = "HGEC\u0001";

export const title = ({ path }) => path[1];

export async function load({ path, get, find }) {
	const job = await find(path);
	if (!job || !sees("viewer")) return { job };
	return together({ job, admission: get([...path, "admission"], { advice: true }), kept: get([...path, "artifacts"]), checkpoint: get([...path, "checkpoint"]) });
}

export function draw({ job, admission, kept, checkpoint }, { local }) {
	if (!job) return empty("There is no such job", "It may have been deleted, or its retention is over.");
	const progress = LIVE.includes(job.state) && kept?.progress;
	return [
		h("div.headline", badge(job.state), name(job.id, null, { mono: true }), copy(job.id, "the id"), tools(actions(job))),
		admission && why(job, admission),
		progress && progressOf(progress),
		h("div.columns", section("Life", {}, timeline(job)), section("Facts", {}, identity(job), instants(job))),
		carried(job, kept, local),
		checkpoint && (checkpoint.completed_steps.length > 0 || checkpoint.in_progress_step) && steps(checkpoint),
	];
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

function why(job, admission) {
	const [tone, what, clear] = explain(job, admission);
	const question = job.state === "running" ? "What it does" : LIVE.includes(job.state) || tone === "held" ? "Why it is not running" : "How it ended";
	return h(
		"section",
		{ class: `why ${tone}`, "aria-label": question },
		h("h2", question),
		h("p.sentence", what),
		clear && h("p.clear", clear),
		admission.advice?.map((text) => h("p.advice", visible(capital(text)), !/[.!?]$/.test(text) && ".")),
	);
}

function progressOf({ current, total, message, updated_at_ms: at }) {
	const ratio = total > 0 ? Number(current) / Number(total) : 0;
	return h("section.progress", { "aria-label": "Progress" }, level(ratio, total > 0 ? `${count(current)} of ${count(total)}` : count(current)), message && h("span", visible(message)), faint(time(at)));
}

function actions(job) {
	const path = ["jobs", job.id];
	const act = (verb, text, extra) => {
		const label = capital(verb);
		return asking(label, { small: false, reason: unfit(verb, job.state), what: "1 job", title: `${label} this job?`, text, send: ["POST", [...path, verb]], ...extra });
	};
	const used = job.attempt >= job.max_attempts;
	// Reckoned once, so that what somebody writes over it stays.
	const due = local(Math.max(Number(job.scheduled_at_ms), now()));
	return [
		job.state === "pending" && act("promote", "It becomes available at once."),
		act("retry", used ? `All ${plural(job.max_attempts, "attempt")} are used: it gets one more, and a failure ends it again.` : "It becomes available now; its attempts stay counted."),
		act("reschedule", "In the time of this browser.", {
			title: "When is it to run?",
			confirm: "Reschedule",
			fields: () => text("Due at", "at", { type: "datetime-local", required: true, value: due }),
			send: ({ at }) => ["POST", [...path, "reschedule"], { scheduled_at_ms: new Date(at).getTime() }],
		}),
		act("cancel", job.state === "running" ? "Its worker is told to stop it." : "It will not run.", { destroys: true }),
		act("delete", "It is gone for good, with its history.", { tone: "danger", send: ["DELETE", path], then: () => go(["jobs"]) }),
	];
}

// The form of a time that a date field takes: local, without a zone.
function local(ms) {
	const date = new Date(ms);
	return new Date(ms - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

function timeline(job) {
	const { attempt, claimed_at_ms: claimed, enqueued_at_ms: enqueued, errors, finalized_at_ms: ended, periodic_origin: origin, scheduled_at_ms: due, state } = job;
	const since = (at) => duration(now() - Number(at));
	const events = [
		{ at: enqueued, title: "Enqueued", tone: "pending", text: origin && ["by the schedule ", link(["periodic", origin.schedule_id], {}, origin.schedule_id), ` for its tick at ${exact(origin.tick_ms)}`] },
		...errors.map(failed),
		state === "running" && claimed !== null && { at: claimed, title: `Attempt ${attempt} began`, now: `running for ${since(claimed)}` },
		state === "available" && { at: due, title: "Available", now: `waiting for ${since(due)}` },
		["scheduled", "retryable"].includes(state) && { at: due, title: state === "scheduled" ? "Due" : "Next attempt" },
		ended !== null && { at: ended, title: capital(state), text: state === "completed" && claimed !== null && Number(claimed) <= Number(ended) && `after running for ${duration(Number(ended) - Number(claimed))}` },
	].filter(Boolean);
	events.sort((a, b) => Number(a.at) - Number(b.at));
	return h(
		"ol.timeline",
		events.map((event, index) => {
			const gap = index ? Number(event.at) - Number(events[index - 1].at) : 0;
			return h(
				"li",
				{ key: `${index}${event.title}` },
				dot(event.tone ?? state),
				h("div.event", h("strong", event.title), " ", time(event.at), gap >= 1000 && h("span.gap", `+ ${duration(gap)}`), event.now && h("span.now", event.now)),
				event.text && h("div.faint", event.text),
				event.error && h("pre.error", { tabindex: "0" }, visibleLines(event.error)),
				event.logs?.length > 0 && logs(event.logs),
			);
		}),
	);
}

function failed({ at_ms: at, attempt, crash_attempt: crash, error, logs, outcome }) {
	const died = crash !== undefined;
	return { at, title: died ? `Worker died (crash ${crash})` : `Attempt ${attempt ?? "?"}: ${outcome}`, tone: died ? "quarantined" : "archived", error, logs };
}

const logs = (lines) => h("details.logs", h("summary", plural(lines.length, "log line")), h("ol", lines.map((line, index) => h("li", { key: index }, visible(String(line))))));

function identity(job) {
	const { fingerprint, kind, partition_key, queue, rate_class: rateClass, sticky_worker: worker, workflow_id: workflow } = job;
	return facts([
		["Kind", name(kind, ["jobs"], { query: { kind } })],
		["Queue", queueName(queue)],
		["Partition", name(partition_key, ["jobs"], { query: { queue, partition_key }, empty: "(none)" })],
		workflow && ["Workflow", name(workflow, ["workflows", workflow], { mono: true })],
		rateClass && ["Rate class", name(rateClass, ["policies"])],
		["Priority", count(job.priority)],
		["Weight", count(job.weight)],
		["Attempts", `${job.attempt} of ${job.max_attempts}`],
		job.crash_attempt > 0 && ["Crashes", `${job.crash_attempt}, without an answer from the worker`],
		worker && ["Pinned to", name(worker, ["workers"])],
		["Schema", `version ${job.schema_version}`],
		["Fingerprint", name(fingerprint, ["jobs"], { query: { q: `fingerprint:${fingerprint}` }, mono: true })],
		job.tags.length > 0 && ["Tags", job.tags.map((tag) => link(["jobs"], { tags_all: tag }, h("span.tag", tag)))],
	]);
}

const instants = (job) =>
	facts([
		["Enqueued", exact(job.enqueued_at_ms)],
		["Due", exact(job.scheduled_at_ms)],
		job.claimed_at_ms !== null && ["Taken", exact(job.claimed_at_ms)],
		job.finalized_at_ms !== null && ["Ended", exact(job.finalized_at_ms)],
	]);

// What the job carries, fetched when somebody asks for it and kept no longer than the page.
function carried(job, kept, local) {
	local.asked ??= {};
	const path = ["jobs", job.id];
	const hindered = missing("admin") || (session.payloads ? "" : "this instance keeps payloads back");
	const ask = (what, path, query) => async () => {
		local.asked[what] = await get(path, query).catch((error) => ({ error }));
		update();
	};
	// What was asked for, or what went wrong with it; `size` is null where there is none.
	const entry = (what, path, query, show, size) => {
		const found = local.asked[what];
		const fetch = ask(what, path, query);
		const hide = () => {
			delete local.asked[what];
			update();
		};
		const control = (verb, run, hindrance) =>
			button(verb, run, { class: "button small", "aria-label": `${verb} ${what.toLowerCase()}`, "aria-disabled": hindrance ? "true" : null, title: hindrance || null });
		return h(
			"div",
			{ key: what },
			h(
				"div.carried-head",
				h("h3", what, size > 0 && h("span.note", ` ${bytes(size)}`)),
				size === null ? faint("none") : found ? control("Hide", hide) : control("Show", hindered ? () => notify(hindered) : fetch, hindered),
			),
			found && (found.error ? failure(found.error, fetch) : show(found)),
		);
	};
	const payload = (found) => {
		const sealed = fromBase64(found.payload);
		const isSealed = asText(sealed) === null || asText(sealed.subarray(0, 5)) === SEALED;
		return [contents(sealed, "Payload"), tools(edit(job, sealed, local)), isSealed && session.reveals && entry("Revealed", [...path, "payload", "reveal"], {}, ({ plaintext }) => contents(fromBase64(plaintext), "Revealed payload"))];
	};
	const metadata = ({ metadata: all = {} }) => (Object.keys(all).length ? facts(Object.entries(all).map(([key, value]) => [key, visible(value)])) : h("p.faint", "None."));
	return section(
		"What it carries",
		{ note: hindered || "shown when you ask for it" },
		h(
			"div.carried",
			entry("Payload", path, { include_payload: true }, payload),
			entry("Metadata", path, { include_payload: true }, metadata),
			entry("Result", [...path, "result"], {}, (found) => contents(fromBase64(found.bytes), "Result"), kept?.result_bytes),
			entry("Output", [...path, "output"], {}, (found) => [faint("As of ", time(found.updated_at_ms)), contents(fromBase64(found.bytes), "Output")], kept?.output_bytes),
		),
	);
}

function edit(job, payload, local) {
	const value = asText(payload);
	return asking("Edit the payload", {
		role: "admin",
		reason: value === null ? "it is no text; edit it through the API" : unfit("edit", job.state),
		title: "Edit the payload",
		text: "The job gets another fingerprint with it. What stands here is what its worker will read, character by character.",
		fields: () => area("Payload", "payload", { rows: 12, value }),
		confirm: "Write it",
		send: (given) => ["PUT", ["jobs", job.id, "payload"], { payload: toBase64(given.payload) }],
		then: () => {
			delete local.asked.Payload;
			refresh();
		},
	});
}

function steps({ completed_steps: completed, crashes_by_step: crashes = {}, cursor, cursor_step: at, in_progress_step: running }) {
	const step = (name, state) => h("li", { key: name }, dot(state), visible(name), crashes[name] && warned(true, plural(crashes[name], "crash", "crashes")));
	return section(
		"Steps",
		{ note: cursor ? `the cursor of ${at} holds ${bytes(fromBase64(cursor).length)}` : "" },
		h("ol.steps", completed.map((each) => step(each, "completed")), running && step(running, "running")),
	);
}
