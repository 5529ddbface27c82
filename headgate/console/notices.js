// Short messages in a corner, read aloud too.

import { h, render } from "./dom.js";

const SHOWN_MS = 5000;
const MOST = 4;

let notices = [];
let last = 0;

export function notify(text) {
	const id = ++last;
	notices = [...notices.slice(-(MOST - 1)), { id, text }];
	draw();
	setTimeout(() => {
		notices = notices.filter((notice) => notice.id !== id);
		draw();
	}, SHOWN_MS);
}

function draw() {
	render(
		document.getElementById("notices"),
		notices.map(({ id, text }) => h("p.notice", { key: id }, text)),
	);
}
