// When to look again: when the API tells of work, and now and then anyway; not in a hidden tab.

import { stream } from "./api.js";

const SETTLE_MS = 700;
const CEILING_MS = 2000;
const POLL_MS = 5000;
const MOVING_MS = 1000;
const POLL_LIMIT_MS = 60_000;

// Calls `look` whenever there may be news, until `pause`. One look is over before the next begins,
// and a server that is slow to answer is asked less often.
export class Live {
	constructor(look, changed) {
		this.look = look;
		this.changed = changed;
		Object.assign(this, { begun: false, running: false, paused: false, streaming: false, looking: false });
		Object.assign(this, { failures: 0, tookMs: 0, timer: 0, due: 0, firstEvent: 0 });
		document.addEventListener("visibilitychange", () => this.wake());
	}

	start({ events }) {
		this.events = events;
		this.begun = true;
		this.wake();
	}

	end() {
		this.begun = false;
		this.stop();
	}

	stop() {
		this.running = false;
		clearTimeout(this.timer);
		this.controller?.abort();
		this.controller = null;
		this.streaming = false;
	}

	pause(paused) {
		this.paused = paused;
		this.wake();
		this.changed();
	}

	wake() {
		const wanted = this.begun && !this.paused && document.visibilityState === "visible";
		if (wanted === this.running) return;
		if (!wanted) return this.stop();
		this.running = true;
		this.schedule(this.tookMs ? 0 : POLL_MS);
		if (this.events) this.listen();
	}

	// A look was taken: the next one can wait, not so long where something `moves`.
	looked({ failed, moves, tookMs }) {
		this.failures = failed ? this.failures + 1 : 0;
		Object.assign(this, { tookMs, firstEvent: 0 });
		const usual = Math.max(moves ? MOVING_MS : POLL_MS, tookMs * 4);
		if (this.running) this.schedule(Math.min(usual * 2 ** this.failures, POLL_LIMIT_MS));
	}

	schedule(delay) {
		clearTimeout(this.timer);
		this.due = performance.now() + delay;
		this.timer = setTimeout(() => this.take(), delay);
	}

	async take() {
		if (!this.running || this.looking) return;
		this.looking = true;
		try {
			await this.look();
		} finally {
			this.looking = false;
		}
	}

	// Events that come together are one reason to look, and a stream of them does not put it off.
	news() {
		const time = performance.now();
		this.firstEvent ||= time;
		const delay = Math.max(
			0,
			Math.min(SETTLE_MS, this.firstEvent + CEILING_MS - time),
			Math.min(this.tookMs * 4, POLL_MS) - (POLL_MS - (this.due - time)),
		);
		if (time + delay < this.due && !this.failures) this.schedule(delay);
	}

	async listen() {
		const controller = new AbortController();
		this.controller = controller;
		let wait = 1000;
		while (!controller.signal.aborted) {
			try {
				const answer = await stream(["events"], controller.signal);
				if (!answer.ok) throw new Error("refused");
				wait = 1000;
				this.tell(true);
				for await (const line of lines(answer.body)) {
					if (line.startsWith("event: queue_activity")) this.news();
				}
			} catch {
				// What matters is whether somebody still wants it.
			}
			if (controller.signal.aborted) return;
			this.tell(false);
			await new Promise((resolve) => setTimeout(resolve, wait));
			wait = Math.min(wait * 2, POLL_LIMIT_MS);
		}
	}

	tell(streaming) {
		if (this.streaming === streaming) return;
		this.streaming = streaming;
		this.changed();
	}
}

async function* lines(body) {
	const reader = body.pipeThrough(new TextDecoderStream()).getReader();
	let rest = "";
	while (true) {
		const { value, done } = await reader.read();
		if (done) return;
		const parts = (rest + value).split("\n");
		rest = parts.pop();
		yield* parts;
	}
}
