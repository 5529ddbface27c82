// The states of a job: how they look, and what may be done from them.

import { h } from "./dom.js";

const MEANING = {
	pending: "waits for somebody to promote it",
	scheduled: "waits for its time",
	available: "waits for the gate",
	running: "is in the hands of a worker",
	retryable: "failed, and waits for its next attempt",
	completed: "succeeded",
	archived: "failed for good: a dead letter",
	cancelled: "was cancelled",
	quarantined: "is held back, since jobs like it killed their workers",
	undecodable: "could not be read by the worker",
};

export const STATES = Object.keys(MEANING);
export const LIVE = STATES.slice(0, 5);

// Each state has a shape of its own, so that colour is never all there is: outlines, and what their
// class makes solid, cut out, dashed or heavy.
const RING = "M2.5 8a5.5 5.5 0 1 0 11 0 5.5 5.5 0 1 0-11 0";
const SHAPES = {
	pending: [[RING, "dashed"]],
	scheduled: [[RING], ["M8 4.8V8l2.3 1.6"]],
	available: [["M3 8a5 5 0 1 0 10 0 5 5 0 1 0-10 0", "heavy"]],
	running: [["M4.5 2.8v10.4L13 8z", "solid"]],
	retryable: [["M12.6 6A5 5 0 1 0 13 8.6M13 2.6V6H9.6"]],
	completed: [["M3 8.6l3.4 3.4L13 4.6", "heavy"]],
	archived: [["M2.5 2.5h11v11h-11z", "solid"], ["M5.6 5.6l4.8 4.8M10.4 5.6l-4.8 4.8", "cut"]],
	cancelled: [[RING], ["M4.4 11.6l7.2-7.2"]],
	quarantined: [["M8 1.8l5.4 3.1v6.2L8 14.2l-5.4-3.1V4.9z"], ["M8 5v3.6M8 10.4v.8", "heavy"]],
	undecodable: [["M8 1.8L14.2 8 8 14.2 1.8 8zM6.4 6.6a1.7 1.7 0 1 1 2.2 1.6c-.5.2-.6.5-.6 1M8 10.6v.8"]],
};

export const shape = (state) => h(
	"svg",
	{ class: `shape state-${state}`, viewBox: "0 0 16 16" },
	(SHAPES[state] ?? SHAPES.undecodable).map(([d, kind]) => h("path", { d, class: kind })),
);

export const dot = (state) => h("span", { class: `dot state-${state}` });

export function badge(state) {
	return h("span", { class: `badge state-${state}`, title: `A job that ${MEANING[state] ?? "is in this state"}` }, shape(state), state);
}

const FROM = {
	retry: ["archived", "cancelled", "undecodable"],
	cancel: LIVE,
	promote: ["pending"],
	reschedule: ["scheduled", "retryable"],
	edit: STATES.filter((state) => state !== "running"),
	delete: STATES.filter((state) => state !== "running"),
};

const listed = new Intl.ListFormat("en", { type: "disjunction" });

// Why an action cannot be taken from a state; "" when it can.
export function unfit(action, state) {
	if (FROM[action].includes(state)) return "";
	if (state === "running") return "the job is running; cancel it first";
	return `only from ${listed.format(FROM[action])}; the job is ${state}`;
}
