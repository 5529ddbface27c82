// What the views are made of.

import { h } from "./dom.js";
import { mutate } from "./api.js";
import { href } from "./address.js";
import { ask } from "./dialog.js";
import { notify } from "./notices.js";
import { hindrance } from "./session.js";

export const link = (path, query, ...children) =>
	h("a", { href: href(path, query) }, children);

// A name of any length: it is cut to the room there is, and whole on hover.
export function name(text, { path, query, empty = "(empty)", mono = false } = {}) {
	const props = { class: `name${mono ? " mono" : ""}`, title: text, dir: "auto" };
	const shown = text === "" ? h("i.faint", empty) : visible(text);
	return path ? h("a", { ...props, href: href(path, query) }, shown) : h("span", props, shown);
}

// Characters that turn the text around them, or take no room, are shown as what they are.
export function visible(text) {
	return text.replace(
		/[\u0000-\u001f\u007f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g,
		(character) => `⟨${character.codePointAt(0).toString(16).padStart(4, "0")}⟩`,
	);
}

// A button for what needs `role`. One that cannot be used stays, and says why.
export function action(label, { role = "operator", reason = "", run, tone = "", title = "", small = false }) {
	const why = hindrance(role) || reason;
	return h(
		"button",
		{
			type: "button",
			class: `button ${tone}${small ? " small" : ""}`,
			"aria-disabled": why ? "true" : null,
			"data-action": label,
			title: why || title || null,
			onclick: why ? () => notify(`${label}: ${why}`) : run,
		},
		label,
	);
}

export const none = () => h("span.faint", "–");

export const queueName = (queue, path = ["queues", queue], query) => name(queue, { path, query, empty: "(no name)" });

export function button(label, run, props = {}) {
	return h("button.button", { type: "button", ...props, onclick: run }, label);
}

// A button that asks first: `question` is what `ask` takes, `send` the method, path and body of the
// request. What comes after is the view as the API tells it then.
export function asking(label, { role, reason, small = true, tone, question, send, done, refresh }) {
	const destroys = tone === "danger";
	return action(label, {
		role,
		reason,
		small,
		tone,
		run: async () => {
			const answer = await ask({
				confirm: label,
				tone: destroys ? "danger" : "primary",
				...question,
				run: (values, key) => {
					const [method, path, body, query] = send(values);
					return mutate(method, path, body, { key, query });
				},
			});
			if (!answer) return;
			notify(done?.(answer) ?? `${label}: done`);
			refresh(answer);
		},
	});
}

export const input = (name, props = {}) => h("input", { name, autocomplete: "off", spellcheck: "false", ...props });

export function field(label, control, hint) {
	return h("label.field", h("span.label", label), control, hint && h("small", hint));
}

export function section(title, { aside, id, note } = {}, ...children) {
	return h(
		"section.panel",
		{ "aria-label": title, id },
		h("header.panel-head", h("h2", title), note && h("span.note", note), aside && h("div.aside", aside)),
		children,
	);
}

export function empty(title, text) {
	return h(
		"div.empty",
		h(
			"svg",
			{ viewBox: "0 0 64 40", "aria-hidden": "true" },
			h("path", { d: "M14 4v32M50 4v32", class: "post" }),
			h("rect", { x: 19, y: 4, width: 26, height: 15, rx: 1, class: "leaf" }),
			h("path", { d: "M4 33q5-4 10 0t10 0 10 0 10 0 10 0 10 0", class: "wave" }),
		),
		h("p", title),
		text && h("p.faint", text),
	);
}

export function failure(error, again) {
	return h(
		"div.failure",
		{ role: "alert" },
		h("strong", error.status ? `The API answered ${error.status}` : "No answer"),
		h("span.text", visible(error.message)),
		error.body?.request_id && h("code", `request ${error.body.request_id}`),
		again && button("Try again", again),
	);
}

// Rows of `columns`, each a title, a class and what makes a cell of a row. On a narrow screen every
// row is a card.
export function table(label, columns, rows, { key, rowProps } = {}) {
	const given = columns.filter(Boolean);
	return h(
		"div.scroll",
		h(
			"table",
			{ "aria-label": label },
			h("thead", h("tr", given.map(([title, kind]) => h("th", { scope: "col", class: kind }, title)))),
			h(
				"tbody",
				rows.map((row) =>
					h(
						"tr",
						{ key: key ? `k${key(row)}` : undefined, ...rowProps?.(row) },
						given.map(([title, kind, cell]) => h("td", { class: kind, "data-title": typeof title === "string" ? title : null }, cell(row))),
					),
				),
			),
		),
	);
}

export function facts(pairs) {
	return h(
		"dl.facts",
		pairs
			.filter(Boolean)
			.map(([label, ...value]) => h("div", h("dt", label), h("dd", value))),
	);
}

export function tabs(label, entries) {
	return h(
		"nav.tabs",
		{ "aria-label": label },
		entries.map(({ title, path, query, active, note }) =>
			h("a", { href: href(path, query), "aria-current": active ? "page" : null }, title, note !== undefined && h("span.tab-note", note)),
		),
	);
}

export function choice(props, options) {
	return h(
		"select",
		{ ...props, value: undefined, onchange: props.onchange },
		options.map(([value, text]) => h("option", { value, selected: value === props.value }, text)),
	);
}

export function copy(text, what) {
	return h(
		"button",
		{
			type: "button",
			class: "copy",
			title: `Copy ${what}`,
			"aria-label": `Copy ${what}`,
			onclick: async () => {
				try {
					await navigator.clipboard.writeText(text);
					notify(`Copied ${what}`);
				} catch {
					notify("This browser does not let the page copy");
				}
			},
		},
		h("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, h("path", { d: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3" })),
	);
}

export function pager({ previous, next }) {
	if (!previous && !next) return null;
	const step = (label, target, rel) =>
		target
			? h("a.button", { rel, href: href(target.path, target.query) }, label)
			: h("span.button", { "aria-disabled": "true" }, label);
	return h("nav.pager", { "aria-label": "Pages" }, step("Previous", previous, "prev"), step("Next", next, "next"));
}

// The pages around an offset, for lists that are paged by it.
export function offsetPager(path, query, next, size) {
	const offset = Number(query.cursor ?? 0);
	return pager({
		previous: offset > 0 && { path, query: { ...query, cursor: offset > size ? offset - size : undefined } },
		next: next && { path, query: { ...query, cursor: next } },
	});
}
