// Why a job does not run, as a sentence: what holds it, what would clear that, and when.

import { count, duration, exact, link, name, now, plural, queueName } from "./kit.js";

// How much somebody has to do, what holds the job, and what clears that: text and links.
export function explain(job, { admissible, blocked_by: reason, detail, estimated_admission_ms: wait }) {
	if (admissible) return free(job, detail);
	return HELD[reason]?.(job, detail, wait) ?? ENDED[job.state]?.(job) ?? ["wait", "It is not waiting to run."];
}

const soon = (wait) => (wait === null ? "" : wait < 1000 ? "at once" : `in about ${duration(wait)}`);

function free(job, { position_in_partition: position }) {
	if (job.state === "running") return ["flow", `It has been running for ${duration(now() - (job.claimed_at_ms ?? now()))}.`];
	const ahead = Number(position ?? 0);
	const turn = ahead ? `${plural(ahead, "job")}${ahead >= 1000 ? " or more" : ""} of its partition ${ahead === 1 ? "goes" : "go"} first.` : "It is the next of its partition.";
	return ["flow", `Nothing holds it. ${turn}`, ["A worker takes it as soon as one of ", queueName(job.queue), " is free."]];
}

const HELD = {
	queue_paused: (job) => ["held", ["Its queue ", queueName(job.queue), " is paused."], "It stays until somebody resumes the queue."],
	schedule: (job, detail, wait) => [
		"wait",
		job.state === "retryable" ? `Attempt ${job.attempt} failed; it waits for the next one.` : "It is not due yet.",
		wait > 0 ? `It is due ${soon(wait)}, at ${exact(detail.scheduled_at_ms)}. Reschedule it to have it sooner.` : "It is due now, and becomes available with the next look of the promoter.",
	],
	quarantine: () => [
		"held",
		["Jobs with the same contents killed their workers, so that all of them are ", link(["quarantine"], {}, "in quarantine"), "."],
		"It stays until somebody releases the fingerprint.",
	],
	rate_class(job, detail, wait) {
		const ahead = Number(detail.tokens_ahead_in_class ?? 0);
		const lacks = ` has ${count(Number(detail.tokens_available))} of the ${plural(Number(detail.weight ?? 1), "token")} it takes`;
		return [
			"wait",
			["Its rate class ", name(detail.rate_class ?? job.rate_class, ["policies"]), lacks, ahead > 0 ? `, and jobs ahead want ${count(ahead)} more.` : "."],
			wait === null ? "The class lets nothing pass; it stays until somebody changes that." : `Tokens come in by themselves: it can run ${soon(wait)}.`,
		];
	},
	concurrency_limit(job, { inflight, max_concurrent: most, on_saturated: policy }) {
		const run = `${count(Number(inflight))} of at most ${plural(Number(most), "job")} of its partition `;
		return [
			"wait",
			[run, name(job.partition_key, null, { empty: "(none)" }), " are running."],
			`It can run when one of them ends${policy && policy !== "queue" ? `; the limit says ${policy} for what is too many` : ""}.`,
		];
	},
};

const ENDED = {
	completed: () => ["done", "It succeeded; there is nothing left to run."],
	cancelled: () => ["done", "It was cancelled.", "Retry it to run it after all."],
	archived: ({ attempt, crash_attempt: crashes }) => [
		"held",
		`It failed for good, after ${plural(attempt, "attempt")}${crashes ? ` and ${plural(crashes, "crash", "crashes")}` : ""}.`,
		"Retry it once the cause is gone.",
	],
	undecodable: () => ["held", "The worker could not read it.", "Correct its payload or deploy code that reads it, then retry."],
	pending: () => ["held", "It waits for somebody.", "Promote it to let it go."],
	quarantined: () => ["held", "It is in quarantine.", "Release its fingerprint."],
};
