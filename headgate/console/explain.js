// Why a job does not run, as a sentence: what holds it, what would clear that, and when.

import { now } from "./api.js";
import { count, duration, exact, plural } from "./format.js";
import { link, name, queueName } from "./parts.js";

// {tone, what, clear, advice}: lists of text and links. `tone` is how much somebody has to do.
export function explain(job, { admissible, blocked_by: reason, detail, estimated_admission_ms: wait, advice }) {
	const told = admissible ? free(job, detail) : (HELD[reason] ?? unheld)(job, detail, wait);
	return { advice: advice ?? [], ...told };
}

const queue = (job) => queueName(job.queue);
const soon = (wait) => (wait === null ? "" : wait < 1000 ? "at once" : `in about ${duration(wait)}`);

function free(job, detail) {
	if (job.state === "running") {
		return { tone: "flow", what: [`It has been running for ${duration(now() - (job.claimed_at_ms ?? now()))}.`], clear: [] };
	}
	const ahead = Number(detail.position_in_partition ?? 0);
	return {
		tone: "flow",
		what: ["Nothing holds it. ", ahead === 0 ? "It is the next of its partition." : `${plural(ahead, "job")}${ahead >= 1000 ? " or more" : ""} of its partition ${ahead === 1 ? "goes" : "go"} first.`],
		clear: ["A worker takes it as soon as one of ", queue(job), " is free."],
	};
}

const HELD = {
	queue_paused: (job) => ({
		tone: "held",
		what: ["Its queue ", queue(job), " is paused."],
		clear: ["It stays until somebody resumes the queue."],
	}),
	schedule: (job, detail, wait) => ({
		tone: "wait",
		what: [job.state === "retryable" ? `Attempt ${job.attempt} failed; it waits for the next one.` : "It is not due yet."],
		clear: wait > 0 ? [`It is due ${soon(wait)}, at ${exact(detail.scheduled_at_ms)}. `, "Reschedule it to have it sooner."] : ["It is due now, and becomes available with the next look of the promoter."],
	}),
	quarantine: (job) => ({
		tone: "held",
		what: ["Jobs with the same contents killed their workers, so that all of them are ", link(["quarantine"], {}, "in quarantine"), "."],
		clear: ["It stays until somebody releases the fingerprint."],
	}),
	rate_class: (job, detail, wait) => {
		const ahead = Number(detail.tokens_ahead_in_class ?? 0);
		return {
			tone: "wait",
			what: [
				"Its rate class ",
				name(detail.rate_class ?? job.rate_class, { path: ["policies"] }),
				` has ${count(Number(detail.tokens_available))} of the ${plural(Number(detail.weight ?? 1), "token")} it takes`,
				ahead > 0 ? `, and jobs ahead want ${count(ahead)} more.` : ".",
			],
			clear: wait === null ? ["The class lets nothing pass; it stays until somebody changes that."] : [`Tokens come in by themselves: it can run ${soon(wait)}.`],
		};
	},
	concurrency_limit: (job, detail) => ({
		tone: "wait",
		what: [`${count(Number(detail.inflight))} of at most ${plural(Number(detail.max_concurrent), "job")} of its partition `, name(job.partition_key, { empty: "(none)" }), " are running."],
		clear: ["It can run when one of them ends", detail.on_saturated && detail.on_saturated !== "queue" ? `; the limit says ${detail.on_saturated} for what is too many.` : "."],
	}),
};

function unheld(job) {
	const ended = {
		completed: ["done", "It succeeded; there is nothing left to run."],
		cancelled: ["done", "It was cancelled.", "Retry it to run it after all."],
		archived: ["held", `It failed for good, after ${plural(job.attempt, "attempt")}${job.crash_attempt ? ` and ${plural(job.crash_attempt, "crash", "crashes")}` : ""}.`, "Retry it once the cause is gone."],
		undecodable: ["held", "The worker could not read it.", "Correct its payload or deploy code that reads it, then retry."],
		pending: ["held", "It waits for somebody.", "Promote it to let it go."],
		quarantined: ["held", "It is in quarantine.", "Release its fingerprint."],
	}[job.state] ?? ["wait", "It is not waiting to run."];
	return { tone: ended[0], what: [ended[1]], clear: ended.slice(2) };
}
