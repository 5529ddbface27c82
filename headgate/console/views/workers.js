// The workers: how busy they are, and what they are told.

import { h } from "../dom.js";
import { get, page } from "../api.js";
import { level } from "../charts.js";
import { count, percent, plural, time } from "../format.js";
import { asking, empty, name, none, offsetPager, queueName, section, table } from "../parts.js";

const PAGE = 100;
const COMMANDS = {
	quiet: ["Quiet", "It takes no more jobs; what runs goes on."],
	resume: ["Resume", "It takes jobs again."],
	resign: ["Resign", "It leaves its duties to others."],
	restart: ["Restart", "It finishes what runs, ends, and is started again by what supervises it."],
	terminate: ["Terminate", "It finishes what runs and ends."],
};

export const title = () => "Workers";

export async function load({ query, signal }) {
	const [workers, cluster, duties] = await Promise.all([page(["workers"], { limit: PAGE, cursor: query.cursor }, signal), get(["cluster"], {}, signal), get(["duties"], {}, signal)]);
	return { workers, cluster, duties };
}

function unfit(command, worker) {
	if (worker.pending_command) return `it has yet to fetch ${worker.pending_command}`;
	if (["restarting", "terminating"].includes(worker.status)) return `it is ${worker.status}`;
	if (command === "quiet" && worker.status !== "running") return `it is ${worker.status} already`;
	if (command === "resume" && worker.status !== "quiet") return "it is not quiet";
	if (command === "resign" && !worker.duties_active) return "it has resigned already";
	return "";
}

function commands(worker, refresh) {
	const signal = (command) => () => ["POST", ["workers", worker.worker_id, "signal"], { command }];
	const shown = Object.entries(COMMANDS).filter(([command]) => command !== (worker.status === "quiet" ? "quiet" : "resume"));
	return h(
		"div.tools",
		shown.map(([command, [label, text]]) =>
			asking(label, { reason: unfit(command, worker), tone: command === "terminate" ? "danger" : "", refresh, send: signal(command), done: () => `${label}: it will be told at its next heartbeat`, question: { title: `${label} ${worker.worker_id}?`, text, confirm: `${label} 1 worker` } }),
		),
		worker.pending_command && asking("Take back", { refresh, send: signal(null), question: { title: `Take back ${worker.pending_command}?`, text: "If it has not been fetched yet." } }),
	);
}

export function draw({ workers, cluster, duties }, { query, refresh }) {
	const { live, stale } = cluster.workers;
	return [
		h("div.headline", level(cluster.utilization, `${count(cluster.inflight_total)} of ${count(cluster.capacity_total)} slots · ${plural(live, "live worker")}${stale ? `, ${count(stale)} silent` : ""}`)),
		workers.items.length
			? table(
					"Workers",
					[
						["Worker", "main", (worker) => [name(worker.worker_id, { mono: true }), h("span.faint.second", `${worker.host} · ${worker.pid}`)]],
						["Status", "tight", (worker) => [h("span", { class: `status ${worker.status}` }, worker.status), worker.pending_command && h("span.warn-text", ` → ${worker.pending_command}`)]],
						["Load", "share", (worker) => level(worker.utilization, `${worker.inflight}/${worker.concurrency}`, { tone: worker.utilization >= 1 ? "held" : "" })],
						["Queues", "kind", (worker) => h("div.name", { title: worker.queues.join(", ") }, worker.queues.map((queue, index) => [index > 0 && ", ", queueName(queue)]))],
						["Empty polls", "number minor", (worker) => percent(worker.empty_poll_ratio)],
						["Started", "time minor", (worker) => time(worker.started_at_ms)],
						["Heartbeat", "time", (worker) => time(worker.heartbeat_at_ms)],
						["", "actions", (worker) => commands(worker, refresh)],
					],
					workers.items,
					{ key: (worker) => worker.worker_id },
				)
			: empty("No worker is alive", "Nothing runs until one is started: headgate worker MODULE:APP"),
		offsetPager(["workers"], query, workers.next, PAGE),
		duties.length > 0 && section("Background duties", { note: "one worker has each" }, table("Duties", [["Duty", "main", (duty) => duty.name], ["Held by", "kind", (duty) => (duty.holder ? name(duty.holder, { mono: true }) : h("span.warn-text", "nobody"))], ["Until", "time", (duty) => time(duty.expires_at_ms)]], duties, { key: (duty) => duty.name })),
	];
}
