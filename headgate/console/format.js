// Numbers and times as people read them.

import { h } from "./dom.js";
import { now } from "./api.js";

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compacted = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const times = (options) => new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false, ...options });
const exactTime = times({ year: "numeric", month: "short", day: "numeric", second: "2-digit", timeZoneName: "short" });
const clockTime = times({});
const dayTime = times({ weekday: "short", day: "numeric", month: "short" });
const UNITS = [
	[86_400_000, "d"],
	[3_600_000, "h"],
	[60_000, "m"],
	[1000, "s"],
];
const LIMIT_MS = 8.64e15;

export const count = (value) => grouped.format(value);
export const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;
export const percent = (ratio) => `${Math.round(ratio * 100)}%`;

// A number in the least room: 12,300 is 12.3K.
export const brief = (value) => (value < 10_000 ? grouped.format(value) : compacted.format(value));

export function rate(perSecond) {
	if (perSecond === 0) return "0/s";
	if (perSecond < 0.1) return `${trimmed(perSecond * 60)}/min`;
	return `${trimmed(perSecond)}/s`;
}

const trimmed = (value) => value >= 100 ? compacted.format(Math.round(value)) : String(Number(value.toPrecision(2)));

// A duration with its two largest units: `2 h 5 m`.
export function duration(ms) {
	const value = Math.max(0, Number(ms));
	if (value < 1000) return `${Math.round(value)} ms`;
	if (value < 10_000) return `${trimmed(value / 1000)} s`;
	const first = UNITS.findIndex(([size]) => value >= size);
	const [size, unit] = UNITS[first];
	const whole = Math.floor(value / size);
	const next = UNITS[first + 1];
	const rest = next && whole < 100 ? Math.floor((value % size) / next[0]) : 0;
	return `${grouped.format(whole)} ${unit}${rest ? ` ${rest} ${next[1]}` : ""}`;
}

export function bytes(value) {
	const power = Math.min(4, Math.floor(Math.log2(Math.max(1, value)) / 10));
	return `${power ? trimmed(value / 1024 ** power) : value} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
}

const isTime = (ms) => Math.abs(Number(ms)) <= LIMIT_MS;

export const exact = (ms) => (isTime(ms) ? exactTime.format(Number(ms)) : `${ms} ms`);
export const clock = (ms) => clockTime.format(ms);
export const day = (ms) => (isTime(ms) ? dayTime.format(Number(ms)) : `${ms} ms`);
export const elsewhere = (ms, timeZone) => times({ timeZone, weekday: "short" }).format(Number(ms));
export function relative(ms) {
	const distance = Number(ms) - now();
	if (Math.abs(distance) < 1000) return "now";
	return distance > 0 ? `in ${coarse(distance)}` : `${coarse(-distance)} ago`;
}

function coarse(ms) {
	const unit = UNITS.find(([size]) => ms >= size);
	const whole = Math.floor(ms / unit[0]);
	return `${grouped.format(whole)} ${unit[1]}`;
}

// An instant, relative, with the exact one on hover.
export function time(ms, text) {
	if (ms === null || ms === undefined) return h("span.faint", "–");
	const datetime = isTime(ms) ? new Date(Number(ms)).toISOString() : undefined;
	return h("time", { datetime, title: exact(ms) }, text ?? relative(ms));
}
