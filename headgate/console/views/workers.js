// The workers: how busy they are, and what they are told.

import {
	asking, buttons, count, h, level, name, offsetPager, percent, plural, queueName, section, status, table, times, together, warned,
} from "../kit.js";

const COMMANDS = {
	quiet: ["Quiet", "It takes no more jobs; what runs goes on."],
	resume: ["Resume", "It takes jobs again."],
	resign: ["Resign", "It leaves its duties to others."],
	restart: ["Restart", "It finishes what runs, ends, and is started again by what supervises it."],
	terminate: ["Terminate", "It finishes what runs and ends."],
};

export const load = ({ get, page }) => together({ workers: page(["workers"]), cluster: get(["cluster"]), duties: get(["duties"]) });

function unfit(command, { pending_command: pending, status, duties_active: onDuty }) {
	if (pending) return `it has yet to fetch ${pending}`;
	if (["restarting", "terminating"].includes(status)) return `it is ${status}`;
	if (command === "quiet" && status !== "running") return `it is ${status} already`;
	if (command === "resume" && status !== "quiet") return "it is not quiet";
	if (command === "resign" && !onDuty) return "it has resigned already";
	return "";
}

function commands(worker) {
	const { pending_command: pending, worker_id: id } = worker;
	const signal = (command) => ["POST", ["workers", id, "signal"], { command }];
	const hidden = worker.status === "quiet" ? "quiet" : "resume";
	return [
		Object.entries(COMMANDS).map(
			([command, [label, text]]) =>
				command !== hidden &&
				asking(label, { reason: unfit(command, worker), tone: command === "terminate" ? "danger" : "", what: "1 worker", title: `${label} ${id}?`, text, send: signal(command), done: () => `${label}: it will be told at its next heartbeat` }),
		),
		pending && asking("Take back", { title: `Take back ${pending}?`, text: "If it has not been fetched yet.", send: signal(null) }),
	];
}

export function draw({ workers, cluster, duties }) {
	const { live, stale } = cluster.workers;
	return [
		h("div.headline", level(cluster.utilization, `${count(cluster.inflight_total)} of ${count(cluster.capacity_total)} slots · ${plural(live, "live worker")}${stale ? `, ${count(stale)} silent` : ""}`)),
		table(
			"Workers",
			[
				["Worker", "main", ({ worker_id: id, host, pid }) => [name(id, null, { mono: true }), h("span.faint.second", `${host} · ${pid}`)]],
				["Status", "tight", (worker) => [status(worker.status), worker.pending_command && warned(true, ` → ${worker.pending_command}`)]],
				["Load", "share", ({ utilization, inflight, concurrency }) => level(utilization, `${inflight}/${concurrency}`, { tone: utilization >= 1 ? "held" : "" })],
				["Queues", "kind", ({ queues }) => h("div.name", { title: queues.join(", ") }, queues.map((queue, index) => [index > 0 && ", ", queueName(queue)]))],
				["Empty polls", "number minor", ({ empty_poll_ratio: ratio }) => percent(ratio)],
				times("Started", "started_at_ms", "time minor"),
				times("Heartbeat", "heartbeat_at_ms"),
				buttons(commands),
			],
			workers.items,
			{ key: "worker_id", nothing: ["No worker is alive", "Nothing runs until one is started: headgate worker MODULE:APP"] },
		),
		offsetPager(workers),
		duties.length > 0 &&
			section(
				"Background duties",
				{ note: "one worker has each" },
				table("Duties", [["Duty", "main", (duty) => duty.name], ["Held by", "kind", ({ holder }) => (holder ? name(holder, null, { mono: true }) : warned(true, "nobody"))], times("Until", "expires_at_ms")], duties, { key: "name" }),
			),
	];
}
