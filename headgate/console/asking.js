// Buttons that ask before they change something.

import { mutate } from "./api.js";
import { ask } from "./dialog.js";
import { refresh } from "./frame.js";
import { notify } from "./notices.js";
import { action } from "./parts.js";

// A button that asks first, with `title`, `text` and `fields`, whether `what`, such as "1 job", is
// to be acted on. `send` is the method, path, body and query of the request, or makes them of what
// was filled in. What comes after is the view as the API tells it then.
export function asking(label, { role, reason, small = true, tone = "", destroys = tone === "danger", what, send, done, then = refresh, ...question }) {
	const run = async () => {
		const answer = await ask({
			confirm: what ? `${label} ${what}` : label,
			tone: destroys ? "danger" : "primary",
			...question,
			run: (values, key) => {
				const [method, path, body, query] = typeof send === "function" ? send(values) : send;
				return mutate(method, path, body, { key, query });
			},
		});
		if (!answer) return;
		notify(done?.(answer) ?? `${label}: done`);
		then(answer);
	};
	return action(label, { role, reason, small, tone, run });
}

// Stops and starts again what may be `paused`, at `path`.
export function pausing({ paused }, path, what, title, { stops, starts, small }) {
	const [label, text] = paused ? ["Resume", starts] : ["Pause", stops];
	return asking(label, { small, what, title: `${label} ${title}?`, text, send: ["POST", [...path, label.toLowerCase()]] });
}
