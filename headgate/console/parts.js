// What the views are made of.

import { h } from "./dom.js";
import { here, href } from "./address.js";
import { count, time } from "./format.js";
import { notify } from "./notices.js";
import { hindrance } from "./session.js";

export const link = (path, query, ...children) => h("a", { href: href(path, query) }, children);

// A name of any length: it is cut to the room there is, and whole on hover.
export function name(text, path, { query, empty = "(empty)", mono = false } = {}) {
	const props = { class: `name${mono ? " mono" : ""}`, title: text, dir: "auto" };
	const shown = text === "" ? h("i.faint", empty) : visible(text);
	return path ? h("a", { ...props, href: href(path, query) }, shown) : h("span", props, shown);
}

export const queueName = (queue, path = ["queues", queue], query) => name(queue, path, { query, empty: "(no name)" });
export const jobName = (id) => name(id, ["jobs", id], { mono: true });

// Characters that turn the text around them, or take no room, are shown as what they are.
export const visible = (text) => text.replace(
	/[\u0000-\u001f\u007f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g,
	(character) => `⟨${character.codePointAt(0).toString(16).padStart(4, "0")}⟩`,
);

export const visibleLines = (text) => text.split("\n").map(visible).join("\n");

export const faint = (...text) => h("span.faint", text);
export const none = () => faint("–");
export const bad = (isBad, text) => h("span", { class: isBad ? "bad-text" : "" }, text);
export const warned = (isWarning, text, title) => h("span", { class: isWarning ? "warn-text" : "", title }, text);
export const status = (text, title) => h("span", { class: `status ${text}`, title }, text);
export const tagged = (shown, tag) => h("div.with-tag", shown, tag && h("span.tag", tag));
export const tools = (...buttons) => h("div.tools", buttons);

export const icon = (d) => h("svg", { viewBox: "0 0 16 16" }, h("path", { d }));

export const button = (label, run, props) => h("button", { class: "button", ...props, onclick: run }, label);

// A button for what needs `role`. One that cannot be used stays, and says why.
export function action(label, { role = "operator", reason = "", run, tone = "", title = "", small = false }) {
	const why = hindrance(role) || reason;
	return button(label, why ? () => notify(`${label}: ${why}`) : run, {
		class: `button ${tone}${small ? " small" : ""}`,
		"aria-disabled": why ? "true" : null,
		"data-action": label,
		title: why || title || null,
	});
}

export const field = (label, control, hint) => h("label.field", h("span.label", label), control, hint && h("small", hint));

export const text = (label, name, props, hint) => field(label, h("input", { name, autocomplete: "off", spellcheck: "false", ...props }), hint);
export const number = (label, name, props, hint) => text(label, name, { type: "number", ...props }, hint);
export const area = (label, name, props, hint) => field(label, h("textarea.mono", { name, spellcheck: "false", ...props }), hint);
export const check = (label, name, props) => h("label.check", h("input", { type: "checkbox", name, ...props }), label);
export const pair = (...fields) => h("div.pair", fields);
export const four = (...fields) => h("div.pair.four", fields);

export const choice = (label, { value: chosen, ...props }, options) => field(label, h("select", props, Object.entries(options).map(([value, text]) => h("option", { value, selected: value === chosen }, text))));

export const section = (title, { aside, note } = {}, ...children) => h(
	"section.panel",
	{ "aria-label": title },
	h("header.panel-head", h("h2", title), note && h("span.note", note), aside && h("div.aside", aside)),
	children,
);

export const empty = (title, text) => h(
	"div.empty",
	h(
		"svg",
		{ viewBox: "0 0 64 40" },
		h("path", { d: "M14 4v32M50 4v32M19 4h26v15H19z" }),
		h("path.wave", { d: "M4 33q5-4 10 0t10 0 10 0 10 0 10 0 10 0" }),
	),
	h("p", title),
	text && h("p.faint", text),
);

export const failure = (error, again) => h(
	"div.failure",
	{ role: "alert" },
	h("strong", error.status ? `The API answered ${error.status}` : "No answer"),
	h("span", visible(error.message)),
	error.body?.request_id && h("code", `request ${error.body.request_id}`),
	again && button("Try again", again),
);

// Rows of `columns`, each a title, a class and what makes a cell of a row; `key` is the field that
// tells the rows apart. Without rows it says `nothing`, a title and a text. On a narrow screen every
// row is a card.
export function table(label, columns, rows, { key, rowProps, nothing }) {
	if (!rows.length && nothing) return here().query.cursor ? empty("Nothing more") : empty(...nothing);
	const cellsOf = (row) => columns.map(([title, kind, cell]) => h("td", { class: kind, "data-title": typeof title === "string" ? title : null }, cell(row)));
	return h(
		"div.scroll",
		h(
			"table",
			{ "aria-label": label },
			h("thead", h("tr", columns.map(([title, kind]) => h("th", { scope: "col", class: kind }, title)))),
			h("tbody", rows.map((row) => h("tr", { key: `k${row[key]}`, ...rowProps?.(row) }, cellsOf(row)))),
		),
	);
}
export const times = (title, field, kind = "time") => [title, kind, (row) => time(row[field])];
export const counts = (title, field) => [title, "number", (row) => count(row[field])];
export const buttons = (make) => ["", "actions", (row) => tools(make(row))];

export const facts = (pairs) => h("dl.facts", pairs.filter(Boolean).map(([label, ...value]) => h("div", h("dt", label), h("dd", value))));

export const tabs = (label, entries) => h(
	"nav.tabs",
	{ "aria-label": label },
	entries.map(({ title, path, query, active, note }) =>
		h("a", { href: href(path, query), "aria-current": active ? "page" : null }, title, note !== undefined && h("span.tab-note", note)),
	),
);

export function copy(text, what) {
	const run = async () => {
		try {
			await navigator.clipboard.writeText(text);
			notify(`Copied ${what}`);
		} catch {
			notify("This browser does not let the page copy");
		}
	};
	return h("button.tool.copy", { title: `Copy ${what}`, "aria-label": `Copy ${what}`, onclick: run }, icon("M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3"));
}

// Where the pages before and after this one are: the conditions that change, or nothing.
export function pager(previous, next) {
	if (!previous && !next) return null;
	const { path, query } = here();
	const step = (label, change, rel) =>
		change ? h("a.button", { rel, href: href(path, { ...query, ...change }) }, label) : h("span.button", { "aria-disabled": "true" }, label);
	return h("nav.pager", { "aria-label": "Pages" }, step("Previous", previous, "prev"), step("Next", next, "next"));
}
export function offsetPager({ next, size }) {
	const offset = Number(here().query.cursor ?? 0);
	return pager(offset > 0 && { cursor: offset > size ? offset - size : undefined }, next && { cursor: next });
}

// Those of a list whose cursors lead forth alone.
export const cursorPager = (next) => pager(here().query.cursor && { cursor: undefined }, next && { cursor: next });
