// Short messages in a corner, read aloud too.

import { h, render } from "./dom.js";

const SHOWN_MS = 5000;
const MOST = 4;

let notices = [];
let last = 0;

export function notify(text, { tone = "" } = {}) {
	const id = ++last;
	notices = [...notices.slice(-(MOST - 1)), { id, text, tone }];
	draw();
	setTimeout(() => {
		notices = notices.filter((notice) => notice.id !== id);
		draw();
	}, tone === "bad" ? SHOWN_MS * 2 : SHOWN_MS);
}

function draw() {
	render(
		document.getElementById("notices"),
		notices.map(({ id, text, tone }) => h("p", { key: id, class: `notice ${tone}` }, text)),
	);
}
