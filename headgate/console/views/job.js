// One job: its life so far, and why it does not run.

import { h } from "../dom.js";
import { find, get, now } from "../api.js";
import { go } from "../address.js";
import { level } from "../charts.js";
import { explain } from "../explain.js";
import { bytes, count, duration, exact, plural, time } from "../format.js";
import { contents, fromBase64, asText, toBase64 } from "../json.js";
import { action, asking, button, copy, empty, facts, failure, field, input, link, name, queueName, section, visible } from "../parts.js";
import { badge, LIVE, unfit } from "../states.js";
import { notify } from "../notices.js";
import { hindrance, sees, session } from "../session.js";

export const title = ({ path }) => path[1];

export async function load({ path, signal }) {
	const id = path[1];
	const job = await find(["jobs", id], {}, signal);
	if (!job || !sees("viewer")) return { job };
	const [admission, kept, checkpoint] = await Promise.all([
		get(["jobs", id, "admission"], { advice: true }, signal),
		get(["jobs", id, "artifacts"], {}, signal),
		get(["jobs", id, "checkpoint"], {}, signal),
	]);
	return { job, admission, kept, checkpoint };
}

export function draw({ job, admission, kept, checkpoint }, context) {
	const progress = kept?.progress;
	if (!job) return empty("There is no such job", "It may have been deleted, or its retention is over.");
	return [
		h("div.headline", badge(job.state), h("span.name.mono", { title: job.id }, visible(job.id)), copy(job.id, "the id"), h("div.tools", actions(job, context))),
		admission && why(job, admission),
		progress && LIVE.includes(job.state) && progressOf(progress),
		h("div.columns", section("Life", {}, timeline(job)), section("Facts", {}, identity(job), times(job))),
		carried(job, kept, context),
		checkpoint && (checkpoint.completed_steps.length > 0 || checkpoint.in_progress_step) && steps(checkpoint),
	];
}

function why(job, admission) {
	const { tone, what, clear, advice } = explain(job, admission);
	const question = job.state === "running" ? "What it does" : LIVE.includes(job.state) || tone === "held" ? "Why it is not running" : "How it ended";
	return h(
		"section",
		{ class: `why ${tone}`, "aria-label": question },
		h("h2", question),
		h("p.sentence", what),
		clear.length > 0 && h("p.clear", clear),
		advice.map((text) => h("p.advice", capital(text))),
	);
}

const capital = (text) => `${visible(text.charAt(0).toUpperCase() + text.slice(1))}${/[.!?]$/.test(text) ? "" : "."}`;

function progressOf({ current, total, message, updated_at_ms: at }) {
	const ratio = total > 0 ? Number(current) / Number(total) : 0;
	return h(
		"section.progress",
		{ "aria-label": "Progress" },
		level(ratio, total > 0 ? `${count(current)} of ${count(total)}` : count(current)),
		message && h("span.text", visible(message)),
		h("span.faint", time(at)),
	);
}

function actions(job, context) {
	const path = ["jobs", job.id];
	const act = (verb, text, extra = {}) => {
		const label = verb.charAt(0).toUpperCase() + verb.slice(1);
		return asking(label, {
			small: false,
			reason: unfit(verb, job.state),
			question: { title: `${label} this job?`, text, confirm: `${label} 1 job` },
			send: () => ["POST", [...path, verb]],
			refresh: context.refresh,
			...extra,
		});
	};
	// Reckoned once, so that what somebody writes over it stays.
	const due = local(Math.max(Number(job.scheduled_at_ms), now()));
	const used = job.attempt >= job.max_attempts;
	const stop = { question: { title: "Cancel this job?", text: job.state === "running" ? "Its worker is told to stop it." : "It will not run.", confirm: "Cancel 1 job", tone: "danger" } };
	return [
		job.state === "pending" && act("promote", "It becomes available at once."),
		act("retry", used ? `All ${plural(job.max_attempts, "attempt")} are used: it gets one more, and a failure ends it again.` : "It becomes available now; its attempts stay counted."),
		act("reschedule", "", {
			question: {
				title: "When is it to run?",
				text: "In the time of this browser.",
				fields: () => field("Due at", input("at", { type: "datetime-local", required: true, value: due })),
			},
			send: ({ at }) => ["POST", [...path, "reschedule"], { scheduled_at_ms: new Date(at).getTime() }],
		}),
		act("cancel", "", stop),
		act("delete", "It is gone for good, with its history.", { tone: "danger", send: () => ["DELETE", path], refresh: () => go(["jobs"]) }),
	];
}

// The form of a time that a date field takes: local, without a zone.
function local(ms) {
	const date = new Date(ms);
	return new Date(ms - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

function timeline(job) {
	const events = [{ at: job.enqueued_at_ms, title: "Enqueued", tone: "pending", text: job.periodic_origin && ["by the schedule ", link(["periodic", job.periodic_origin.schedule_id], {}, job.periodic_origin.schedule_id), ` for its tick at ${exact(job.periodic_origin.tick_ms)}`] }];
	for (const error of job.errors) events.push(attempt(error));
	if (job.state === "running" && job.claimed_at_ms !== null) events.push({ at: job.claimed_at_ms, title: `Attempt ${job.attempt} began`, tone: "running", now: `running for ${duration(now() - Number(job.claimed_at_ms))}` });
	if (["scheduled", "retryable"].includes(job.state)) events.push({ at: job.scheduled_at_ms, title: job.state === "scheduled" ? "Due" : "Next attempt", tone: job.state, future: Number(job.scheduled_at_ms) > now() });
	if (job.state === "available") events.push({ at: job.scheduled_at_ms, title: "Available", tone: "available", now: `waiting for ${duration(now() - Number(job.scheduled_at_ms))}` });
	if (job.finalized_at_ms !== null) events.push({ at: job.finalized_at_ms, title: job.state.charAt(0).toUpperCase() + job.state.slice(1), tone: job.state, text: job.claimed_at_ms !== null && Number(job.claimed_at_ms) <= Number(job.finalized_at_ms) && job.state === "completed" ? `after running for ${duration(Number(job.finalized_at_ms) - Number(job.claimed_at_ms))}` : null });
	events.sort((a, b) => Number(a.at) - Number(b.at));
	return h(
		"ol.timeline",
		events.map((event, index) => {
			const before = events[index - 1];
			const gap = before ? Number(event.at) - Number(before.at) : 0;
			return h(
				"li",
				{ key: `${index}${event.title}`, class: event.future ? "future" : "" },
				h("span", { class: `dot state-${event.tone}` }),
				h("div.event", h("strong", event.title), " ", time(event.at), gap >= 1000 && h("span.gap", `+ ${duration(gap)}`), event.now && h("span.now", event.now)),
				event.text && h("div.faint", event.text),
				event.error && h("pre.error", { tabindex: "0" }, visibleLines(event.error)),
				event.logs?.length > 0 && logs(event.logs),
			);
		}),
	);
}

const visibleLines = (text) => text.split("\n").map(visible).join("\n");

function attempt(error) {
	const crash = error.crash_attempt !== undefined;
	const title = crash ? `Worker died (crash ${error.crash_attempt})` : `Attempt ${error.attempt ?? "?"}: ${error.outcome}`;
	return { at: error.at_ms, title, tone: crash ? "quarantined" : "archived", error: error.error, logs: error.logs };
}

function logs(lines) {
	return h("details.logs", h("summary", plural(lines.length, "log line")), h("ol", lines.map((line, index) => h("li", { key: index }, visible(String(line))))));
}

function identity(job) {
	return facts([
		["Kind", name(job.kind, { path: ["jobs"], query: { kind: job.kind } })],
		["Queue", queueName(job.queue)],
		["Partition", name(job.partition_key, { path: ["jobs"], query: { queue: job.queue, partition_key: job.partition_key }, empty: "(none)" })],
		job.rate_class && ["Rate class", name(job.rate_class, { path: ["policies"] })],
		["Priority", count(job.priority)],
		["Weight", count(job.weight)],
		["Attempts", `${job.attempt} of ${job.max_attempts}`],
		job.crash_attempt > 0 && ["Crashes", `${job.crash_attempt}, without an answer from the worker`],
		job.sticky_worker && ["Pinned to", name(job.sticky_worker, { path: ["workers"] })],
		["Schema", `version ${job.schema_version}`],
		["Fingerprint", name(job.fingerprint, { path: ["jobs"], query: { q: `fingerprint:${job.fingerprint}` }, mono: true })],
		job.tags.length > 0 && ["Tags", job.tags.map((tag) => link(["jobs"], { tags_all: tag }, h("span.tag", tag)))],
	]);
}

function times(job) {
	return facts([
		["Enqueued", exact(job.enqueued_at_ms)],
		["Due", exact(job.scheduled_at_ms)],
		job.claimed_at_ms !== null && ["Taken", exact(job.claimed_at_ms)],
		job.finalized_at_ms !== null && ["Ended", exact(job.finalized_at_ms)],
	]);
}

// What the job carries, fetched when somebody asks for it and kept no longer than the page.
function carried(job, kept, context) {
	const { local } = context;
	local.asked ??= {};
	const hindered = hindrance("admin").startsWith("only") ? hindrance("admin") : session.payloads ? "" : "this instance keeps payloads back";
	const show = (what, ask) => async () => {
		try {
			local.asked[what] = await ask();
		} catch (error) {
			local.asked[what] = { error };
		}
		context.update();
	};
	const whole = () => get(["jobs", job.id], { include_payload: true });
	const entries = [
		["Payload", whole, (found) => [contents(fromBase64(found.payload), "Payload"), edit(job, found, context)]],
		["Metadata", whole, (found) => (Object.keys(found.metadata ?? {}).length ? facts(Object.entries(found.metadata).map(([key, value]) => [key, visible(value)])) : h("p.faint", "None."))],
		["Result", () => get(["jobs", job.id, "result"]), (found) => contents(fromBase64(found.bytes), "Result"), kept?.result_bytes],
		["Output", () => get(["jobs", job.id, "output"]), (found) => [h("p.faint", "As of ", time(found.updated_at_ms)), contents(fromBase64(found.bytes), "Output")], kept?.output_bytes],
	];
	return section(
		"What it carries",
		{ note: hindered || "shown when you ask for it" },
		h(
			"div.carried",
			entries.map(([what, fetch, draw, size]) => {
				const found = local.asked[what];
				const ask = show(what, fetch);
				return h(
					"div",
					{ key: what },
					h(
						"div.carried-head",
						h("h3", what, size > 0 && h("span.note", ` ${bytes(size)}`)),
						size === null
							? h("span.faint", "none")
							: found
							? button("Hide", () => { delete local.asked[what]; context.update(); }, { class: "button small", "aria-label": `Hide ${what.toLowerCase()}` })
							: h("button.button.small", { type: "button", "aria-disabled": hindered ? "true" : null, title: hindered || null, "aria-label": `Show ${what.toLowerCase()}`, onclick: hindered ? () => notify(hindered) : ask }, "Show"),
					),
					found && (found.error ? failure(found.error, ask) : draw(found)),
				);
			}),
		),
	);
}

function edit(job, found, context) {
	const text = asText(fromBase64(found.payload));
	return asking("Edit the payload", {
		role: "admin",
		reason: text === null ? "it is no text; edit it through the API" : unfit("edit", job.state),
		question: {
			title: "Edit the payload",
			text: "The job gets another fingerprint with it. What stands here is what its worker will read, character by character.",
			fields: () => field("Payload", h("textarea.mono", { name: "payload", rows: 12, spellcheck: "false", value: text })),
			confirm: "Write it",
		},
		send: ({ payload }) => ["PUT", ["jobs", job.id, "payload"], { payload: toBase64(payload.replaceAll("\r\n", "\n")) }],
		refresh: () => {
			delete context.local.asked.Payload;
			context.refresh();
		},
	});
}

function steps(checkpoint) {
	const crashes = checkpoint.crashes_by_step ?? {};
	const all = [...checkpoint.completed_steps.map((step) => [step, "completed"]), ...(checkpoint.in_progress_step ? [[checkpoint.in_progress_step, "running"]] : [])];
	return section(
		"Steps",
		{ note: checkpoint.cursor ? `the cursor of ${checkpoint.cursor_step} holds ${bytes(fromBase64(checkpoint.cursor).length)}` : "" },
		h("ol.steps", all.map(([step, state]) => h("li", { key: step }, h("span", { class: `dot state-${state}` }), visible(step), crashes[step] ? h("span.warn-text", plural(crashes[step], "crash", "crashes")) : ""))),
	);
}
