// The states of a job: how they look, and what may be done from them.

import { h } from "./dom.js";

export const STATES = [
	"pending",
	"scheduled",
	"available",
	"running",
	"retryable",
	"completed",
	"archived",
	"cancelled",
	"quarantined",
	"undecodable",
];

export const MEANING = {
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

// Each state has a shape of its own, so that colour is never all there is.
const SHAPES = {
	pending: [["circle", { cx: 8, cy: 8, r: 5.5, "stroke-dasharray": "2.4 2.2", fill: "none" }]],
	scheduled: [
		["circle", { cx: 8, cy: 8, r: 5.5, fill: "none" }],
		["path", { d: "M8 4.8V8l2.3 1.6", fill: "none" }],
	],
	available: [["circle", { cx: 8, cy: 8, r: 5, fill: "none", "stroke-width": 2.4 }]],
	running: [["path", { d: "M4.5 2.8v10.4L13 8z", class: "solid" }]],
	retryable: [["path", { d: "M12.6 6A5 5 0 1 0 13 8.6M13 2.6V6H9.6", fill: "none" }]],
	completed: [["path", { d: "M3 8.6l3.4 3.4L13 4.6", fill: "none", "stroke-width": 2.2 }]],
	archived: [
		["rect", { x: 2.5, y: 2.5, width: 11, height: 11, rx: 1.5, class: "solid" }],
		["path", { d: "M5.6 5.6l4.8 4.8M10.4 5.6l-4.8 4.8", class: "cut" }],
	],
	cancelled: [
		["circle", { cx: 8, cy: 8, r: 5.5, fill: "none" }],
		["path", { d: "M4.4 11.6l7.2-7.2" }],
	],
	quarantined: [
		["path", { d: "M8 1.8l5.4 3.1v6.2L8 14.2l-5.4-3.1V4.9z", fill: "none" }],
		["path", { d: "M8 5v3.6M8 10.4v.8", "stroke-width": 2 }],
	],
	undecodable: [
		["path", { d: "M8 1.8L14.2 8 8 14.2 1.8 8z", fill: "none" }],
		["path", { d: "M6.4 6.6a1.7 1.7 0 1 1 2.2 1.6c-.5.2-.6.5-.6 1M8 10.6v.8", fill: "none" }],
	],
};

export function shape(state) {
	const parts = SHAPES[state] ?? SHAPES.undecodable;
	return h(
		"svg",
		{ class: `shape state-${state}`, viewBox: "0 0 16 16", "aria-hidden": "true" },
		parts.map(([tag, props]) => h(tag, props)),
	);
}

export function badge(state) {
	return h(
		"span",
		{ class: `badge state-${state}`, title: `A job that ${MEANING[state] ?? "is in this state"}` },
		shape(state),
		state,
	);
}

const FROM = {
	retry: ["archived", "cancelled", "undecodable"],
	cancel: ["pending", "scheduled", "available", "running", "retryable"],
	promote: ["pending"],
	reschedule: ["scheduled", "retryable"],
	edit: STATES.filter((state) => state !== "running"),
	delete: STATES.filter((state) => state !== "running"),
};

// Why an action cannot be taken from a state; "" when it can.
export function unfit(action, state) {
	if (FROM[action].includes(state)) return "";
	if (state === "running") return "the job is running; cancel it first";
	return `only from ${listed(FROM[action])}; the job is ${state}`;
}

function listed(words) {
	return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
}

export const LIVE = ["pending", "scheduled", "available", "running", "retryable"];
