// What is held back because it killed its workers.

import { h } from "../dom.js";
import { get, page } from "../api.js";
import { count, plural, time } from "../format.js";
import { contents, fromBase64 } from "../json.js";
import { action, asking, empty, failure, link, name, offsetPager, table } from "../parts.js";
import { open, frame } from "../dialog.js";

const PAGE = 50;

export const title = () => "Quarantine";

export const load = async ({ query, signal }) => page(["quarantine"], { limit: PAGE, cursor: query.cursor }, signal);

// One of the jobs that are held, with what it carries.
function sample(fingerprint) {
	open((dialog) => {
		const { state } = dialog;
		if (!state.asked) {
			state.asked = true;
			dialog.run(async () => {
				const [job] = (await get(["jobs"], { q: `fingerprint:${fingerprint}`, limit: 1 })).jobs;
				state.job = job ? await get(["jobs", job.id], { include_payload: true }) : null;
			});
		}
		const { job } = state;
		return frame(dialog, {
			title: "A sample",
			text: job ? ["The newest job of this fingerprint: ", link(["jobs", job.id], {}, job.id)] : job === null ? "No job of this fingerprint is left." : dialog.error ? "" : "Asking…",
			content: job ? contents(fromBase64(job.payload), "Payload") : [],
		});
	}, { wide: true });
}

export function draw({ items, next }, { query, refresh }) {
	if (!items.length && !query.cursor) return empty("Nothing is in quarantine", "Jobs that kill their workers again and again come here.");
	return [
		table(
			"Quarantined fingerprints",
			[
				["Fingerprint", "main", (each) => name(each.fingerprint, { path: ["jobs"], query: { q: `fingerprint:${each.fingerprint}` }, mono: true })],
				["Kind", "kind", (each) => name(each.kind, { path: ["jobs"], query: { kind: each.kind } })],
				["Crashes", "number", (each) => count(each.crash_count)],
				["Since", "time", (each) => time(each.quarantined_at_ms)],
				["Why", "prose", (each) => each.reason],
				["", "actions", (each) =>
					h(
						"div.tools",
						action("Sample", { role: "admin", small: true, run: () => sample(each.fingerprint) }),
						asking("Release", { refresh, send: () => ["DELETE", ["quarantine", each.fingerprint]], done: ({ headers }) => `Released ${plural(Number(headers.get("x-released-jobs") ?? 0), "job")}`, question: { title: "Release this fingerprint?", text: "Its jobs become available with their crashes forgiven, and new ones may come in. They may kill workers again.", confirm: "Release 1 fingerprint" } }),
					)],
			],
			items,
			{ key: (each) => each.fingerprint },
		),
		offsetPager(["quarantine"], query, next, PAGE),
	];
}
