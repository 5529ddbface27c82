// Who changed what.

import { h } from "../dom.js";
import { get } from "../api.js";
import { exact, time } from "../format.js";
import { sees } from "../session.js";
import { empty, name, none, pager, table } from "../parts.js";

export const title = () => "Audit";

export const load = async ({ query, signal }) => (sees("admin") ? get(["audit"], { limit: 100, cursor: query.cursor }, signal) : {});

export function draw({ entries, next_cursor: next }, { query }) {
	if (!entries) return empty("Only admins see who changed what");
	if (!entries.length && !query.cursor) return empty("Nothing was changed yet", "Every change through the API but an enqueue is written down for 90 days.");
	return [
		table(
			"Audit trail",
			[
				["When", "time", (each) => time(each.at_ms, exact(each.at_ms))],
				["Who", "kind", (each) => (each.identity ? [name(each.identity), h("span.faint.second", each.role)] : h("span.faint", "anybody"))],
				["What", "main", (each) => h("span.name.mono", { title: each.idempotency_key }, `${each.method} ${each.route.replace("/api/v1", "")}`)],
				["Target", "kind", (each) => (each.target ? name(each.target) : none())],
				["Status", "number", (each) => h("span", { class: each.status >= 400 ? "bad-text" : "" }, each.status)],
			],
			entries,
			{ key: (each) => each.id },
		),
		pager({ previous: query.cursor && { path: ["audit"] }, next: next && { path: ["audit"], query: { cursor: next } } }),
	];
}
