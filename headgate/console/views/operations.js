// Work on whole selections of jobs: how far it has come.

import { h } from "../dom.js";
import { page, find } from "../api.js";
import { level } from "../charts.js";
import { count, exact, time } from "../format.js";
import { asking, empty, facts, link, name, none, offsetPager, section, table } from "../parts.js";

const PAGE = 50;
const OPEN = ["pending", "running"];

export const title = ({ path }) => (path[1] ? `Operation ${path[1]}` : "Operations");

export async function load({ path, query, signal }) {
	if (path[1]) return { one: await find(["operations", path[1]], {}, signal) };
	return page(["operations"], { limit: PAGE, cursor: query.cursor }, signal);
}

const inWords = (selector) => Object.entries(selector).map(([field, value]) => `${field} ${value === "" ? "(empty)" : value}`).join(", ");

const progress = (each) => (each.dry_run ? h("span.faint", `dry run: ${count(each.total_estimated)}`) : level(each.total_estimated ? each.affected / each.total_estimated : 1, `${count(each.affected)} of ~${count(each.total_estimated)}`, { tone: each.status === "failed" ? "bad" : "" }));

const end = (each, refresh) =>
	OPEN.includes(each.status) && asking("End it", { tone: "danger", refresh, send: () => ["DELETE", ["operations", each.id]], question: { title: "End this operation?", text: "What it has done stays done.", confirm: "End 1 operation" } });

export function draw(data, { path, query, refresh }) {
	if (path[1]) {
		const { one } = data;
		if (!one) return empty("There is no such operation", "Finished ones are kept for 7 days.");
		return section(
			one.id,
			{ aside: end(one, refresh) },
			h("div.inset", progress(one)),
			facts([["Status", h("span", { class: `status ${one.status}` }, one.status)], ["Changed", `${count(one.affected)} of about ${count(one.total_estimated)} jobs`], ["Dry run", one.dry_run ? "yes" : "no"], one.error && ["Error", one.error]]),
		);
	}
	if (!data.items.length && !query.cursor) return empty("No operation is kept", "Retry, cancel or delete all jobs of a list, and see here how far that is.");
	return [
		table(
			"Operations",
			[
				["Operation", "main", (each) => name(each.id, { path: ["operations", each.id], mono: true })],
				["What", "tight", (each) => each.action.replace("_", " ")],
				["Of", "prose", (each) => inWords(each.selector)],
				["Status", "tight", (each) => h("span", { class: `status ${each.status}`, title: each.error }, each.status)],
				["Done", "share", progress],
				["Begun", "time", (each) => time(each.created_at_ms)],
				["Ended", "time minor", (each) => (each.finished_at_ms ? h("span", { title: exact(each.finished_at_ms) }, time(each.finished_at_ms)) : none())],
				["", "actions", (each) => end(each, refresh)],
			],
			data.items,
			{ key: (each) => each.id },
		),
		offsetPager(["operations"], query, data.next, PAGE),
	];
}
