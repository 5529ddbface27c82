// Putting a job in by hand.

import {
	area, check, failure, four, go, h, hindrance, indent, mutate, newKey, notify, now, number, pair, text, toBase64, update,
} from "../kit.js";

export const title = () => "Enqueue a job";

export const load = async () => ({});

const NUMBERS = ["priority", "weight", "max_attempts"];

function bodyOf({ payload, tags, pending, delay, ...others }) {
	const given = Object.entries(others).filter(([, text]) => text !== "");
	return {
		...Object.fromEntries(given.map(([name, text]) => [name, NUMBERS.includes(name) ? Number(text) : text])),
		payload: toBase64(payload),
		tags: tags.split(/[\s,]+/).filter(Boolean),
		pending: pending === "on",
		scheduled_at_ms: Number(delay) ? now() + Math.round(Number(delay) * 60_000) : undefined,
	};
}

export function draw(_, { local, query }) {
	local.key ??= newKey();
	const why = hindrance("producer");
	const set = (changes) => {
		Object.assign(local, changes);
		update();
	};
	async function submit(event) {
		event.preventDefault();
		const values = Object.fromEntries(new FormData(event.target));
		set({ busy: true, error: null });
		try {
			const { value } = await mutate("POST", ["jobs"], bodyOf(values), { key: local.key });
			notify(value.replayed ? "It was in already" : "It is in");
			go(["jobs", value.id]);
		} catch (error) {
			// What was refused is over; the corrected job is another one.
			set({ busy: false, error, key: error.status ? newKey() : local.key });
		}
	}
	const oninput = ({ target }) => set({ noJson: target.value !== "" && indent(target.value) === null });
	return h(
		"form.panel.form",
		{ onsubmit: submit },
		pair(text("Kind", "kind", { required: true, value: query.kind ?? "", maxlength: 128 }, "What the worker knows it by."), text("Queue", "queue", { value: query.queue ?? "", placeholder: "default" })),
		area("Payload", "payload", { rows: 8, value: "{}", oninput }, local.noJson ? "This is no JSON; it is sent as it stands." : "Sent as it stands, in UTF-8."),
		pair(text("Partition", "partition_key", {}, "Whose turn it takes."), text("Rate class", "rate_class")),
		four(
			number("Priority", "priority", { placeholder: "0" }),
			number("Weight", "weight", { min: 1, placeholder: "1" }),
			number("Attempts at most", "max_attempts", { min: 1, placeholder: "25" }),
			number("Delay in minutes", "delay", { min: 0, step: "any", placeholder: "0" }),
		),
		pair(text("Tags", "tags", {}, "Between spaces or commas."), text("Id", "id", {}, "Made up when left empty.")),
		check("Let it wait until somebody promotes it", "pending"),
		local.error && failure(local.error),
		h("footer", h("button.button.primary", { type: "submit", disabled: Boolean(why) || local.busy, title: why || null }, local.busy ? "Working…" : "Enqueue")),
	);
}
