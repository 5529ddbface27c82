// Work on all jobs of a list: first how many, then whether; how far it is, operations tell.

import { choice, form, go, h, mutate, number, open, pair, plural } from "./kit.js";
import { inWords } from "./search.js";

const VERBS = { retry: "Retry", cancel: "Cancel", delete: "Delete" };

export async function bulk(selector) {
	const id = await open((dialog) => {
		const { state } = dialog;
		state.action ??= ["archived", "cancelled", "undecodable"].includes(selector.state) ? "retry" : "cancel";
		const { action, estimate, hours } = state;
		const counted = estimate !== undefined;
		const what = counted && `${VERBS[action]} ${plural(estimate, "job")}`;
		const set = (changes) => {
			Object.assign(state, changes, { estimate: undefined });
			dialog.update();
		};
		const submit = async () => {
			const older = hours ? { older_than_ms: Math.round(Number(hours) * 3_600_000) } : {};
			const body = { action, selector: { ...selector, ...older }, dry_run: !counted };
			const { value } = await mutate("POST", ["jobs", "bulk"], body, counted ? { key: dialog.key } : {});
			if (counted) dialog.close(value.id);
			else state.estimate = value.total_estimated;
		};
		return form(dialog, {
			title: counted ? `${what}?` : "All matching jobs",
			text: `Every job with ${inWords(selector)}.`,
			content: [
				pair(
					choice("What to do", { name: "action", value: action, onchange: ({ target }) => set({ action: target.value }) }, VERBS),
					number("Only if enqueued more than … hours ago", "hours", { min: 0, step: "any", inputmode: "decimal", oninput: ({ target }) => set({ hours: target.value }) }),
				),
				action === "retry" && !selector.state && h("p.faint", "Without a state in the list, retry takes archived jobs alone."),
				counted && h("p.estimate", { role: "status" }, `A dry run counted ${plural(estimate, "job")} that this would ${action}.`),
			],
			confirm: what || "Count them (dry run)",
			tone: counted && action !== "retry" ? "danger" : "primary",
			disabled: estimate === 0,
			submit: () => dialog.run(submit),
		});
	});
	if (id) go(["operations", id]);
}
