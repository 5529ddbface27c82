// What is held back because it killed its workers.

import {
	action, asking, buttons, contents, counts, form, fromBase64, get, link, name, offsetPager, open, plural, table, times,
} from "../kit.js";

export const load = ({ page }) => page(["quarantine"]);

const alike = (fingerprint) => ({ q: `fingerprint:${fingerprint}` });
function sample(fingerprint) {
	open((dialog) => {
		const { state } = dialog;
		if (!state.asked) {
			state.asked = true;
			dialog.run(async () => {
				const [job] = (await get(["jobs"], { ...alike(fingerprint), limit: 1 })).jobs;
				state.job = job ? await get(["jobs", job.id], { include_payload: true }) : null;
			});
		}
		const { job } = state;
		return form(dialog, {
			title: "A sample",
			text: job ? ["The newest job of this fingerprint: ", link(["jobs", job.id], {}, job.id)] : job === null ? "No job of this fingerprint is left." : dialog.error ? "" : "Asking…",
			content: job ? contents(fromBase64(job.payload), "Payload") : [],
		});
	}, { wide: true });
}

const actions = ({ fingerprint }) => [
	action("Sample", { role: "admin", small: true, run: () => sample(fingerprint) }),
	asking("Release", {
		what: "1 fingerprint",
		title: "Release this fingerprint?",
		text: "Its jobs become available with their crashes forgiven, and new ones may come in. They may kill workers again.",
		send: ["DELETE", ["quarantine", fingerprint]],
		done: ({ headers }) => `Released ${plural(Number(headers.get("x-released-jobs") ?? 0), "job")}`,
	}),
];

export const draw = (list) => [
	table(
		"Quarantined fingerprints",
		[
			["Fingerprint", "main", ({ fingerprint }) => name(fingerprint, ["jobs"], { query: alike(fingerprint), mono: true })],
			["Kind", "kind", ({ kind }) => name(kind, ["jobs"], { query: { kind } })],
			counts("Crashes", "crash_count"),
			times("Since", "quarantined_at_ms"),
			["Why", "prose", ({ reason }) => reason],
			buttons(actions),
		],
		list.items,
		{ key: "fingerprint", nothing: ["Nothing is in quarantine", "Jobs that kill their workers again and again come here."] },
	),
	offsetPager(list),
];
