// Signing in with a token.

import { h } from "../dom.js";
import { failure, field } from "../parts.js";
import { signIn } from "../session.js";

const form = { error: null, busy: false };

export function signInForm({ signedIn, update }) {
	async function submit(event) {
		event.preventDefault();
		const values = new FormData(event.target);
		Object.assign(form, { error: null, busy: true });
		update();
		try {
			await signIn(values.get("token").trim(), { keep: values.get("keep") !== null });
		} catch (error) {
			Object.assign(form, { error, busy: false });
			update();
			return;
		}
		form.busy = false;
		signedIn();
	}
	return h(
		"form.sign-in",
		{ onsubmit: submit },
		h("h1", "Sign in"),
		field(
			"Token",
			h("input", { name: "token", type: "password", required: true, autocomplete: "off", spellcheck: "false", mounted: (node) => node.focus() }),
			"As `headgate token` printed it.",
		),
		h("label.check", h("input", { type: "checkbox", name: "keep" }), "Keep it until this tab is closed"),
		form.error && (form.error.status === 401 ? h("p.failure", { role: "alert" }, "This token is not known here.") : failure(form.error)),
		h("button", { type: "submit", class: "button primary", disabled: form.busy }, form.busy ? "Asking…" : "Sign in"),
	);
}
