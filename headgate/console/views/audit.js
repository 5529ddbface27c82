// Who changed what.

import { bad, cursorPager, empty, exact, faint, h, name, none, sees, table, time } from "../kit.js";

export const load = async ({ query, get }) => (sees("admin") ? get(["audit"], { limit: 100, cursor: query.cursor }) : {});

export function draw({ entries, next_cursor: next }) {
	if (!entries) return empty("Only admins see who changed what");
	return [
		table(
			"Audit trail",
			[
				["When", "time", ({ at_ms: at }) => time(at, exact(at))],
				["Who", "kind", ({ identity, role }) => (identity ? [name(identity), h("span.faint.second", role)] : faint("anybody"))],
				["What", "main", ({ method, route, idempotency_key: key }) => h("span.name.mono", { title: key }, `${method} ${route.replace("/api/v1", "")}`)],
				["Target", "kind", ({ target }) => (target ? name(target) : none())],
				["Status", "number", ({ status }) => bad(status >= 400, status)],
			],
			entries,
			{ key: "id", nothing: ["Nothing was changed yet", "Every change through the API but an enqueue is written down for 90 days."] },
		),
		cursorPager(next),
	];
}
