// The keyboard: everything there is can be reached without a pointer.

import { h } from "./dom.js";
import { go } from "./address.js";
import { isOpen, open, form } from "./dialog.js";
import { places } from "./places.js";

const KEYS = [
	["/", "search"],
	["j k", "next and previous row"],
	["x", "select the row"],
	["Enter", "open the row"],
	["r", "look again"],
	["l", "pause and resume updates"],
	["n", "enqueue a job"],
	["Esc", "leave a field, a selection or a dialog"],
	["?", "this help"],
];

let waiting = 0;

// Calls what belongs to a key; `commands` holds the rest by name.
export function listen(commands) {
	document.addEventListener("keydown", (event) => {
		if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
		const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
		if (event.key === "Escape" && typing && !isOpen()) {
			typing.blur();
			return;
		}
		if (typing || isOpen()) return;
		if (performance.now() < waiting) {
			waiting = 0;
			const place = places().find(({ key }) => key === event.key);
			if (place) {
				event.preventDefault();
				go(place.path);
				return;
			}
		}
		const run = {
			"/": () => document.querySelector("[data-search]")?.focus(),
			j: () => move(1),
			k: () => move(-1),
			x: () => current()?.querySelector("input[type=checkbox]")?.click(),
			r: commands.refresh,
			l: commands.pause,
			n: () => go(["enqueue"]),
			g: () => {
				waiting = performance.now() + 1500;
			},
			Escape: commands.escape,
			"?": help,
		}[event.key];
		if (!run) return;
		if (event.key !== "Escape") event.preventDefault();
		run();
	});
}

const rows = () => [...document.querySelectorAll("main tbody tr")];
const current = () => document.activeElement?.closest?.("tbody tr");

function move(step) {
	const all = rows();
	if (!all.length) return;
	const at = all.indexOf(current());
	const row = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.max(0, Math.min(all.length - 1, at + step))];
	const target = row.querySelector("a") ?? row.querySelector("button, input");
	target?.focus();
	row.scrollIntoView({ block: "nearest" });
}

export function help() {
	const rows = [...KEYS, ...places().map(({ key, title }) => [`g ${key}`, `go to ${title}`])];
	return open((dialog) =>
		form(dialog, {
			title: "Keyboard",
			content: h(
				"dl.keys",
				rows.map(([keys, meaning]) => h("div", h("dt", keys.split(" ").map((key) => h("kbd", key))), h("dd", meaning))),
			),
		}),
	);
}
