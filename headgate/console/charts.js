// Charts as SVG. They stretch to the room they get, so that nothing has to be measured.

import { h } from "./dom.js";
import { clock, day, count, percent } from "./format.js";

const WIDTH = 1000;
export function filled(buckets, sinceMs, untilMs, stepMs) {
	const known = new Map(buckets.map((bucket) => [bucket.at_ms, bucket]));
	const first = Math.floor(sinceMs / stepMs) * stepMs;
	const all = [];
	for (let at = first; at <= untilMs; at += stepMs) {
		all.push(known.get(at) ?? { at_ms: at, arrived: 0, completed: 0 });
	}
	return all;
}

const round = (value) => Math.round(value * 10) / 10;
function lines(buckets, top, height) {
	const step = WIDTH / Math.max(1, buckets.length - 1);
	const line = (field) => buckets.map((each, index) => `${index ? "L" : "M"}${round(index * step)} ${round(height - (each[field] / top) * height)}`).join("");
	const arrived = line("arrived");
	return [h("path.area.arrived", { d: `${arrived}L${WIDTH} ${height}L0 ${height}Z` }), h("path.line.arrived", { d: arrived }), h("path.line.completed", { d: line("completed") })];
}

const most = (buckets) => Math.max(...buckets.flatMap((each) => [each.arrived, each.completed]));
function ceiling(value) {
	if (value <= 4) return 4;
	const size = 10 ** Math.floor(Math.log10(value));
	return [1, 2, 4, 6, 8, 10].map((factor) => factor * size).find((round) => round >= value);
}

// What arrived against what was completed. `pointed` is the index of the bucket under the pointer.
export function traffic(buckets, { stepMs, pointed, point, label }) {
	const height = 200;
	const top = ceiling(most(buckets));
	const shown = buckets[pointed];
	const at = stepMs >= 3_600_000 ? day : clock;
	const said = shown
		? `${at(shown.at_ms)} · ${count(shown.arrived)} arrived · ${count(shown.completed)} completed`
		: "";
	const marks = [0, 0.25, 0.5, 0.75, 1].map((part) => buckets[Math.round(part * (buckets.length - 1))]);
	return h(
		"figure.traffic",
		h("figcaption", h("span.legend", "arrived"), h("span.legend.completed", "completed"), h("output", said)),
		h(
			"div",
			{
				class: "plot",
				onmousemove: (event) => {
					const box = event.currentTarget.getBoundingClientRect();
					point(Math.round(((event.clientX - box.left) / box.width) * (buckets.length - 1)));
				},
				onmouseleave: () => point(undefined),
			},
			h("span.axis", count(top)),
			h("span.axis.middle", count(top / 2)),
			h(
				"svg",
				{ viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
				h("path.grid", { d: `M0 0H${WIDTH}M0 ${height / 2}H${WIDTH}M0 ${height}H${WIDTH}` }),
				lines(buckets, top, height),
				shown && h("path.pointer", { d: `M${round((pointed / (buckets.length - 1)) * WIDTH)} 0V${height}` }),
			),
		),
		h("div.ticks", { "aria-hidden": "true" }, marks.map((mark) => h("span", at(mark.at_ms)))),
	);
}

export function sparkline(buckets, label) {
	const height = 100;
	if (!buckets) return h("svg.sparkline", { viewBox: `0 0 ${WIDTH} ${height}` });
	return h(
		"svg.sparkline",
		{ viewBox: `0 -6 ${WIDTH} ${height + 12}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
		lines(buckets, Math.max(1, most(buckets)), height),
	);
}
export function level(ratio, text, { tone = "", label } = {}) {
	const part = Math.max(0, Math.min(1, ratio || 0));
	return h(
		"span",
		{ class: `level ${tone}` },
		h(
			"span.basin",
			{ role: "img", "aria-label": label ?? percent(part) },
			h("span.water", { style: { width: `${round(part * 100)}%` } }),
		),
		h("span.level-text", text),
	);
}
export const shares = (parts, total, label) => h(
	"span.shares",
	{ role: "img", "aria-label": label },
	parts.map(({ part, tone, title }) => h("span", { class: tone, title, style: { "flex-grow": String(Math.max(part / total, 0.012)) } })),
);
