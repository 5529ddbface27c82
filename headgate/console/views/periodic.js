// Schedules: when they run next, what became of their ticks.

import { h } from "../dom.js";
import { find, get, page } from "../api.js";
import { go } from "../address.js";
import { count, day, exact, plural, relative, time } from "../format.js";
import { fromBase64, asText, toBase64 } from "../json.js";
import { action, asking, choice, empty, facts, field, input, link, name, none, offsetPager, pager, queueName, section, table } from "../parts.js";
import { open, frame } from "../dialog.js";
import { mutate } from "../api.js";
import { notify } from "../notices.js";

const PAGE = 50;
const MISSED = {
	skip: "one job for the newest tick that was missed",
	run_once: "one job for all ticks that were missed",
	backfill: "a job for each of the newest ticks that were missed",
};

export const title = ({ path }) => path[1] ?? "Periodic";

export async function load({ path, query, signal }) {
	if (!path[1]) return page(["periodic"], { limit: PAGE, cursor: query.cursor }, signal);
	const [schedule, events] = await Promise.all([find(["periodic", path[1]], {}, signal), get(["periodic", path[1], "enqueue-events"], { limit: 50, cursor: query.cursor }, signal)]);
	return { schedule, events, ticks: schedule ? (await get(["ticks"], { spec: schedule.spec }, signal)).ticks : [] };
}

const zoneOf = (spec) => (spec.startsWith("@") ? "UTC" : (/^CRON_TZ=(\S+) /.exec(spec)?.[1] ?? "UTC"));

// An instant in the zone of the schedule, where that is another one than here.
function zoned(ms, spec) {
	const zone = zoneOf(spec);
	try {
		return `${new Intl.DateTimeFormat(undefined, { timeZone: zone, weekday: "short", hour: "2-digit", minute: "2-digit", hour12: false }).format(Number(ms))} ${zone}`;
	} catch {
		return zone;
	}
}

const missed = ({ on_missed: policy, backfill_limit: limit }) => (policy === "backfill" ? `a job for each of the newest ${count(limit)} ticks that were missed` : MISSED[policy]);

const buttons = (schedule, refresh) => [
	asking("Run now", { refresh, send: () => ["POST", ["periodic", schedule.id, "run"]], done: ({ value }) => `It is in: ${value.id}`, question: { title: `Run ${schedule.id} now?`, text: "One job beside its ticks; the next run stays where it is.", confirm: "Run it now" } }),
	schedule.paused
		? asking("Resume", { refresh, send: () => ["POST", ["periodic", schedule.id, "resume"]], question: { title: `Resume ${schedule.id}?`, text: `For what it missed: ${missed(schedule)}.`, confirm: "Resume 1 schedule" } })
		: asking("Pause", { refresh, send: () => ["POST", ["periodic", schedule.id, "pause"]], question: { title: `Pause ${schedule.id}?`, text: "It makes no jobs until somebody resumes it.", confirm: "Pause 1 schedule" } }),
];

export function draw(data, context) {
	return context.path[1] ? one(data, context) : list(data, context);
}

const creating = (refresh) => action("New schedule", { role: "admin", tone: "primary", run: () => edit(null, refresh) });

function list({ items, next }, { query, refresh }) {
	if (!items.length && !query.cursor) return [h("div.above", h("div.tools", creating(refresh))), empty("There is no schedule", "Your application can declare some, or make one here.")];
	return [
		h("div.above", h("div.tools", creating(refresh))),
		table(
			"Schedules",
			[
				["Schedule", "main", (each) => h("div.with-tag", name(each.id, { path: ["periodic", each.id] }), each.paused && h("span.tag", "paused"))],
				["When", "kind", (each) => h("span.name.mono", { title: each.spec }, each.spec)],
				["Makes", "kind", (each) => h("div.name", { title: each.kind }, each.kind, h("span.faint", " → "), queueName(each.queue))],
				["Next run", "time", (each) => (each.paused ? none() : h("span", { title: zoned(each.next_run_ms, each.spec) }, time(each.next_run_ms, `${day(each.next_run_ms)} · ${relative(each.next_run_ms)}`)))],
				["Last", "time minor", (each) => time(each.last_enqueued_ms)],
				["", "actions", (each) => h("div.tools", buttons(each, refresh))],
			],
			items,
			{ key: (each) => each.id },
		),
		offsetPager(["periodic"], query, next, PAGE),
	];
}

function one({ schedule, events, ticks }, { path, query, refresh }) {
	return [
		h(
			"div.headline",
			name(path[1]),
			schedule?.paused && h("span.tag", "paused"),
			schedule &&
				h(
					"div.tools",
					buttons(schedule, refresh),
					action("Edit", { role: "admin", small: true, run: () => edit(schedule, refresh) }),
					asking("Delete", { role: "admin", tone: "danger", send: () => ["DELETE", ["periodic", schedule.id]], refresh: () => go(["periodic"]), question: { title: `Delete ${schedule.id}?`, text: "Its jobs and its events stay.", confirm: "Delete 1 schedule" } }),
				),
		),
		schedule
			? h(
					"div.columns",
					section("What it makes", {}, facts([["When", h("code", schedule.spec)], ["Kind", name(schedule.kind)], ["Queue", queueName(schedule.queue)], schedule.partition_key && ["Partition", name(schedule.partition_key)], schedule.rate_class && ["Rate class", name(schedule.rate_class)], ["Priority", count(schedule.priority)], ["Attempts", plural(schedule.max_attempts, "attempt")], ["If missed", missed(schedule)], ["Last run", time(schedule.last_enqueued_ms)]])),
					section("Next ticks", { note: schedule.paused ? "but it is paused" : "" }, ticking(ticks, schedule.spec)),
				)
			: empty("There is no such schedule", "What became of its last ticks is below, if there were some."),
		section(
			"What became of its ticks",
			{},
			events.events.length
				? table(
						"Events",
						[
							["Tick", "time", (each) => time(each.tick_ms, exact(each.tick_ms))],
							["Outcome", "tight", (each) => h("span", { class: `status ${each.outcome}` }, each.outcome)],
							["Job", "main", (each) => (each.job_id ? name(each.job_id, { path: ["jobs", each.job_id], mono: true }) : none())],
							["Why", "prose", (each) => each.reason],
							["Recorded", "time minor", (each) => time(each.recorded_at_ms)],
						],
						events.events,
						{ key: (each) => each.event_id },
					)
				: empty("Nothing yet"),
		),
		pager({ previous: query.cursor && { path }, next: events.next_cursor && { path, query: { cursor: events.next_cursor } } }),
	];
}

const ticking = (ticks, spec) => h("ol.ticking", ticks.map((tick) => h("li", { key: tick }, h("strong", day(tick)), h("span.faint", zoned(tick, spec)), h("span", relative(tick)))));

// A form with the next ticks of what is being written, as the API reckons them.
async function edit(known, refresh) {
	let payload = "{}";
	if (known) {
		try {
			payload = asText(fromBase64((await get(["periodic", known.id], { include_payload: true })).payload));
		} catch (error) {
			notify(error.message, { tone: "bad" });
			return;
		}
		if (payload === null) {
			notify("Its payload is no text; edit it through the API");
			return;
		}
	}
	let timer = 0;
	const done = await open((dialog) => {
		const { state } = dialog;
		const preview = (spec) => {
			clearTimeout(timer);
			timer = setTimeout(async () => {
				try {
					Object.assign(state, { ticks: (await get(["ticks"], { spec, count: 5 })).ticks, wrong: "" });
				} catch (error) {
					Object.assign(state, { ticks: [], wrong: error.message });
				}
				dialog.update();
			}, 250);
		};
		state.spec ??= known?.spec ?? "*/5 * * * *";
		if (!state.ticks) {
			state.ticks = [];
			preview(state.spec);
		}
		return frame(dialog, {
			title: known ? `Edit ${known.id}` : "New schedule",
			content: [
				!known && field("Id", input("id", { required: true, maxlength: 200 })),
				field("When", input("spec", { class: "mono", required: true, value: known?.spec ?? "*/5 * * * *", oninput: (event) => { state.spec = event.target.value; preview(state.spec); } }), "cron with 5 or 6 fields, CRON_TZ=Europe/Paris before it for a zone, or @every:60000"),
				h("div.preview", { "aria-live": "polite" }, state.wrong ? h("p.failure", state.wrong) : ticking(state.ticks, state.spec)),
				h("div.pair", field("Kind", input("kind", { required: true, value: known?.kind ?? "" })), field("Queue", input("queue", { value: known?.queue ?? "default", required: true }))),
				field("Payload", h("textarea.mono", { name: "payload", rows: 4, spellcheck: "false", value: payload })),
				h("div.pair", field("Partition", input("partition_key", { value: known?.partition_key ?? "" })), field("Rate class", input("rate_class", { value: known?.rate_class ?? "" }))),
				h("div.pair.four", field("Priority", input("priority", { type: "number", value: known?.priority ?? 0 })), field("Attempts", input("max_attempts", { type: "number", min: 1, value: known?.max_attempts ?? 25 })), field("Backfill", input("backfill_limit", { type: "number", min: 0, value: known?.backfill_limit ?? 0 }))),
				field("What becomes of missed ticks", choice({ name: "on_missed", value: known?.on_missed ?? "skip" }, Object.entries(MISSED))),
			],
			confirm: known ? "Write it" : "Make it",
			submit: (values) =>
				dialog.run(async () => {
					const body = { ...values, payload: toBase64(values.payload.replaceAll("\r\n", "\n")), retention_ms: known?.retention_ms ?? 0, paused: known?.paused ?? false };
					for (const field of ["priority", "max_attempts", "backfill_limit"]) body[field] = Number(values[field]);
					await mutate("PUT", ["periodic", known?.id ?? values.id], body, { key: dialog.key });
					dialog.close(true);
				}),
		});
	}, { wide: true });
	clearTimeout(timer);
	if (done) refresh();
}
