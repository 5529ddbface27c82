// Schedules: when they run next, what became of their ticks.

import {
	action, area, asking, asText, buttons, choice, count, cursorPager, day, elsewhere, empty, exact, facts, faint, form, four,
	fromBase64, get, go, h, jobName, mutate, name, none, notify, number, offsetPager, open, pair, pausing, plural, queueName,
	refresh, relative, section, status, table, tagged, text, time, times, toBase64, tools,
} from "../kit.js";

const MISSED = {
	skip: "one job for the newest tick that was missed",
	run_once: "one job for all ticks that were missed",
	backfill: "a job for each of the newest ticks that were missed",
};

export const title = ({ path }) => path[1];

export async function load({ path, query, get, page, find }) {
	if (!path[1]) return page(path);
	const [schedule, events] = await Promise.all([find(path), get([...path, "enqueue-events"], { limit: 50, cursor: query.cursor })]);
	return { schedule, events, ticks: schedule ? (await get(["ticks"], { spec: schedule.spec })).ticks : [] };
}

export const draw = (data, { path }) => (path[1] ? one(data, path) : list(data));

const zoneOf = (spec) => /^CRON_TZ=(\S+) /.exec(spec)?.[1] ?? "UTC";
function zoned(ms, spec) {
	const zone = zoneOf(spec);
	try {
		return `${elsewhere(ms, zone)} ${zone}`;
	} catch {
		return zone;
	}
}

const missed = ({ on_missed: policy, backfill_limit: limit }) => MISSED[policy].replace("newest ticks", `newest ${count(limit)} ticks`);

const creating = () => action("New schedule", { role: "admin", tone: "primary", run: () => edit(null) });

function actions(schedule) {
	const { id } = schedule;
	const path = ["periodic", id];
	return [
		asking("Run now", { title: `Run ${id} now?`, text: "One job beside its ticks; the next run stays where it is.", confirm: "Run it now", send: ["POST", [...path, "run"]], done: ({ value }) => `It is in: ${value.id}` }),
		pausing(schedule, path, "1 schedule", id, { starts: `For what it missed: ${missed(schedule)}.`, stops: "It makes no jobs until somebody resumes it." }),
	];
}

const list = (schedules) => [
	h("div.above", tools(creating())),
	table(
		"Schedules",
		[
			["Schedule", "main", ({ id, paused }) => tagged(name(id, ["periodic", id]), paused && "paused")],
			["When", "kind", ({ spec }) => h("span.name.mono", { title: spec }, spec)],
			["Makes", "kind", ({ kind, queue }) => h("div.name", { title: kind }, kind, faint(" → "), queueName(queue))],
			["Next run", "time", ({ paused, next_run_ms: at, spec }) => (paused ? none() : h("span", { title: zoned(at, spec) }, time(at, `${day(at)} · ${relative(at)}`)))],
			times("Last", "last_enqueued_ms", "time minor"),
			buttons(actions),
		],
		schedules.items,
		{ key: "id", nothing: ["There is no schedule", "Your application can declare some, or make one here."] },
	),
	offsetPager(schedules),
];

const one = ({ schedule, events, ticks }, path) => [
	h(
		"div.headline",
		name(path[1]),
		schedule?.paused && h("span.tag", "paused"),
		schedule &&
			tools(
				actions(schedule),
				action("Edit", { role: "admin", small: true, run: () => edit(schedule) }),
				asking("Delete", { role: "admin", tone: "danger", what: "1 schedule", title: `Delete ${path[1]}?`, text: "Its jobs and its events stay.", send: ["DELETE", path], then: () => go(["periodic"]) }),
			),
	),
	schedule
		? h("div.columns", made(schedule), section("Next ticks", { note: schedule.paused ? "but it is paused" : "" }, ticking(ticks, schedule.spec)))
		: empty("There is no such schedule", "What became of its last ticks is below, if there were some."),
	section(
		"What became of its ticks",
		{},
		table(
			"Events",
			[
				["Tick", "time", ({ tick_ms: at }) => time(at, exact(at))],
				["Outcome", "tight", ({ outcome }) => status(outcome)],
				["Job", "main", ({ job_id: id }) => (id ? jobName(id) : none())],
				["Why", "prose", ({ reason }) => reason],
				times("Recorded", "recorded_at_ms", "time minor"),
			],
			events.events,
			{ key: "event_id", nothing: ["Nothing yet"] },
		),
	),
	cursorPager(events.next_cursor),
];

const made = (schedule) => section(
	"What it makes",
	{},
	facts([
		["When", h("code", schedule.spec)],
		["Kind", name(schedule.kind)],
		["Queue", queueName(schedule.queue)],
		schedule.partition_key && ["Partition", name(schedule.partition_key)],
		schedule.rate_class && ["Rate class", name(schedule.rate_class)],
		["Priority", count(schedule.priority)],
		["Attempts", plural(schedule.max_attempts, "attempt")],
		["If missed", missed(schedule)],
		["Last run", time(schedule.last_enqueued_ms)],
	]),
);

const ticking = (ticks, spec) => h("ol.ticking", ticks.map((tick) => h("li", { key: tick }, h("strong", day(tick)), faint(zoned(tick, spec)), h("span", relative(tick)))));

async function payloadOf(known) {
	if (!known) return "{}";
	const payload = asText(fromBase64((await get(["periodic", known.id], { include_payload: true })).payload));
	if (payload === null) throw new Error("Its payload is no text; edit it through the API");
	return payload;
}

// A form with the next ticks of what is being written, as the API reckons them.
async function edit(known) {
	let payload;
	try {
		payload = await payloadOf(known);
	} catch (error) {
		return notify(error.message);
	}
	const schedule = { spec: "*/5 * * * *", kind: "", queue: "default", partition_key: "", rate_class: "", priority: 0, max_attempts: 25, backfill_limit: 0, on_missed: "skip", retention_ms: 0, paused: false, ...known };
	const given = (field, props) => [field, { value: schedule[field], ...props }];
	let timer = 0;
	const done = await open((dialog) => {
		const { state } = dialog;
		const preview = (spec) => {
			state.spec = spec;
			clearTimeout(timer);
			timer = setTimeout(async () => {
				const found = await get(["ticks"], { spec, count: 5 }).catch(({ message }) => ({ ticks: [], wrong: message }));
				if (state.spec !== spec) return;
				Object.assign(state, { wrong: "" }, found);
				dialog.update();
			}, 250);
		};
		if (!state.ticks) {
			state.ticks = [];
			preview(schedule.spec);
		}
		return form(dialog, {
			title: known ? `Edit ${known.id}` : "New schedule",
			content: [
				!known && text("Id", "id", { required: true, maxlength: 200 }),
				text("When", ...given("spec", { class: "mono", required: true, oninput: (event) => preview(event.target.value) }), "cron with 5 or 6 fields, CRON_TZ=Europe/Paris before it for a zone, or @every:60000"),
				h("div.preview", { "aria-live": "polite" }, state.wrong ? h("p.failure", state.wrong) : ticking(state.ticks, state.spec)),
				pair(text("Kind", ...given("kind", { required: true })), text("Queue", ...given("queue", { required: true }))),
				area("Payload", "payload", { rows: 4, value: payload }),
				pair(text("Partition", ...given("partition_key")), text("Rate class", ...given("rate_class"))),
				four(number("Priority", ...given("priority")), number("Attempts", ...given("max_attempts", { min: 1 })), number("Backfill", ...given("backfill_limit", { min: 0 }))),
				choice("What becomes of missed ticks", { name: "on_missed", value: schedule.on_missed }, MISSED),
			],
			confirm: known ? "Write it" : "Make it",
			submit: (values) =>
				dialog.run(async () => {
					const { retention_ms, paused } = schedule;
					const body = { ...values, payload: toBase64(values.payload), retention_ms, paused };
					for (const field of ["priority", "max_attempts", "backfill_limit"]) body[field] = Number(values[field]);
					await mutate("PUT", ["periodic", known?.id ?? values.id], body, { key: dialog.key });
					dialog.close(true);
				}),
		});
	}, { wide: true });
	clearTimeout(timer);
	if (done) refresh();
}
