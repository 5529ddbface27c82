// Putting a job in by hand.

import { h } from "../dom.js";
import { mutate, newKey, now } from "../api.js";
import { go } from "../address.js";
import { failure, field, input } from "../parts.js";
import { indent, toBase64 } from "../json.js";
import { hindrance } from "../session.js";
import { notify } from "../notices.js";

export const title = () => "Enqueue a job";

export async function load() {
	return {};
}

const number = (text) => (text === "" ? undefined : Number(text));

function bodyOf(values) {
	const delay = number(values.delay);
	return {
		kind: values.kind,
		payload: toBase64(values.payload.replaceAll("\r\n", "\n")),
		queue: values.queue || undefined,
		partition_key: values.partition_key || undefined,
		rate_class: values.rate_class || undefined,
		priority: number(values.priority),
		weight: number(values.weight),
		max_attempts: number(values.max_attempts),
		tags: values.tags.split(/[\s,]+/).filter(Boolean),
		pending: values.pending === "on",
		scheduled_at_ms: delay ? now() + Math.round(delay * 60_000) : undefined,
		id: values.id || undefined,
	};
}

export function draw(_, context) {
	const { local, query } = context;
	local.key ??= newKey();
	const why = hindrance("producer");
	async function submit(event) {
		event.preventDefault();
		const values = Object.fromEntries(new FormData(event.target));
		Object.assign(local, { busy: true, error: null });
		context.update();
		try {
			const { value } = await mutate("POST", ["jobs"], bodyOf(values), { key: local.key });
			notify(value.replayed ? "It was in already" : "It is in");
			go(["jobs", value.id]);
		} catch (error) {
			// What was refused is over; the corrected job is another one.
			if (error.status) local.key = newKey();
			Object.assign(local, { busy: false, error });
			context.update();
		}
	}
	return h(
		"form.panel.form",
		{ onsubmit: submit },
		h("div.pair", field("Kind", input("kind", { required: true, value: query.kind ?? "", maxlength: 128 }), "What the worker knows it by."), field("Queue", input("queue", { value: query.queue ?? "", placeholder: "default" }))),
		field("Payload", h("textarea", { name: "payload", rows: 8, spellcheck: "false", class: "mono", value: "{}", oninput: (event) => { local.noJson = event.target.value !== "" && indent(event.target.value) === null; context.update(); } }), local.noJson ? "This is no JSON; it is sent as it stands." : "Sent as it stands, in UTF-8."),
		h("div.pair", field("Partition", input("partition_key"), "Whose turn it takes."), field("Rate class", input("rate_class"))),
		h("div.pair.four", field("Priority", input("priority", { type: "number", placeholder: "0" })), field("Weight", input("weight", { type: "number", min: 1, placeholder: "1" })), field("Attempts at most", input("max_attempts", { type: "number", min: 1, placeholder: "25" })), field("Delay in minutes", input("delay", { type: "number", min: 0, step: "any", placeholder: "0" }))),
		h("div.pair", field("Tags", input("tags"), "Between spaces or commas."), field("Id", input("id"), "Made up when left empty.")),
		h("label.check", h("input", { type: "checkbox", name: "pending" }), "Let it wait until somebody promotes it"),
		local.error && failure(local.error),
		h("footer", h("button", { type: "submit", class: "button primary", disabled: Boolean(why) || local.busy, title: why || null }, local.busy ? "Working…" : "Enqueue")),
	);
}
