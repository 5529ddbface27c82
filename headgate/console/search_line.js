// The search field with its suggestions.

import { h, icon, page, update } from "./kit.js";
import { FIELDS, suggestions } from "./search.js";

const FRESH_MS = 60_000;
const known = { queues: [], kinds: [], at: -FRESH_MS };
let offered = [];

async function learn() {
	if (performance.now() - known.at < FRESH_MS) return;
	known.at = performance.now();
	try {
		known.queues = (await page(["backlog"], { limit: 200 })).items.map((queue) => queue.queue);
	} catch {
		// Suggestions are a help, not a need.
	}
}

// Kinds are learnt from what is seen.
export function sawKinds(jobs) {
	for (const job of jobs) {
		if (!known.kinds.includes(job.kind)) known.kinds = [...known.kinds, job.kind].slice(-200);
	}
}

export function searchLine({ value, submit }) {
	const suggest = async (event) => {
		const input = event.currentTarget;
		await learn();
		offered = suggestions(input.value, known);
		update();
	};
	return h(
		"form.search",
		{
			role: "search",
			onsubmit: (event) => {
				event.preventDefault();
				submit(event.target.elements.q.value.trim());
			},
		},
		icon("M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9M10.4 10.4l3.4 3.4"),
		h("input", {
			name: "q",
			value,
			placeholder: "kind, or queue:mail state:archived tag:billing",
			autocomplete: "off",
			autocapitalize: "off",
			spellcheck: "false",
			list: "suggestions",
			"data-search": true,
			"aria-label": "Search jobs",
			title: `Fields: ${FIELDS.join(", ")}; a word alone is the beginning of a kind`,
			onfocus: suggest,
			oninput: suggest,
		}),
		h("datalist", { id: "suggestions" }, offered.map((line) => h("option", { key: line, value: line }))),
		h("button.button", { type: "submit" }, "Search"),
	);
}
