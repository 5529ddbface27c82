// Signing in with a token.

import { check, failure, h, signIn, text } from "../kit.js";

const form = { error: null, busy: false };

export function signInForm({ signedIn, update }) {
	async function submit(event) {
		event.preventDefault();
		const values = new FormData(event.target);
		Object.assign(form, { error: null, busy: true });
		update();
		try {
			await signIn(values.get("token").trim(), { kept: values.has("keep") });
		} catch (error) {
			form.error = error;
		}
		form.busy = false;
		if (form.error) update();
		else signedIn();
	}
	return h(
		"form.panel.form",
		{ onsubmit: submit },
		h("h1", "Sign in"),
		text("Token", "token", { type: "password", required: true, "data-first": true }, "As `headgate token` printed it."),
		check("Keep it until this tab is closed", "keep"),
		form.error && (form.error.status === 401 ? h("p.failure", { role: "alert" }, "This token is not known here.") : failure(form.error)),
		h("button.button.primary", { type: "submit", disabled: form.busy }, form.busy ? "Asking…" : "Sign in"),
	);
}
