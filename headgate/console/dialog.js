// Questions before something happens, and answers that need room.

import { h, render } from "./dom.js";
import { newKey } from "./api.js";
import { button, failure } from "./parts.js";

// Shows what `draw` describes until it is closed. `draw` gets a handle: `state` to keep things in,
// `update()` to draw again, `close(result)`, and `run(work)`, which shows that it is busy and what
// went wrong. Resolves to the result, or undefined.
export const open = (draw, { wide = false } = {}) => new Promise((resolve) => {
	const element = document.createElement("dialog");
	const before = document.activeElement;
	if (wide) element.className = "wide";
	let result;
	const handle = {
		state: {},
		busy: false,
		error: null,
		// One intent has one key, however often it is sent.
		key: newKey(),
		update() {
			if (element.isConnected) render(element, draw(handle));
		},
		close(value) {
			result = value;
			element.close();
		},
		async run(work) {
			if (handle.busy) return;
			Object.assign(handle, { busy: true, error: null });
			handle.update();
			try {
				await work();
			} catch (error) {
				handle.error = error;
				// A request that was answered is over; another one is another intent.
				if (error.status) handle.key = newKey();
			} finally {
				handle.busy = false;
				handle.update();
			}
		},
	};
	element.addEventListener("close", () => {
		render(element);
		element.remove();
		before?.focus?.();
		resolve(result);
	});
	element.addEventListener("click", (event) => {
		if (event.target === element) element.close();
	});
	document.body.append(element);
	handle.update();
	element.showModal();
	element.querySelector("[data-first]")?.focus();
});

export const isOpen = () => document.querySelector("dialog[open]") !== null;

// A form and its buttons. `run(values, key)` acts; the dialog closes with what it returns. Nothing
// that destroys is chosen by pressing Enter.
export const ask = ({ title, text, fields = () => [], confirm, tone = "primary", run }) => open((dialog) =>
	form(dialog, {
		title,
		text,
		content: fields(dialog),
		confirm,
		tone,
		submit: (values) => dialog.run(async () => dialog.close((await run(values, dialog.key)) ?? true)),
	}),
);
export function form(dialog, { title, text, content = [], confirm, tone = "primary", submit, disabled }) {
	const destroys = tone === "danger";
	return h(
		"form",
		{
			onsubmit: (event) => {
				event.preventDefault();
				submit(Object.fromEntries(new FormData(event.target)));
			},
		},
		h("h2", title),
		text && h("p", text),
		content,
		dialog.error && failure(dialog.error),
		h(
			"footer",
			button(submit ? "Cancel" : "Close", () => dialog.close(), { "data-first": destroys }),
			submit &&
				h("button", { type: "submit", class: `button ${tone}`, disabled: dialog.busy || Boolean(disabled) }, dialog.busy ? "Working…" : confirm),
		),
	);
}
