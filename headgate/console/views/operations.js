// Work on whole selections of jobs: how far it has come.

import { asking, buttons, count, empty, facts, faint, h, level, name, offsetPager, plural, section, status, table, times } from "../kit.js";
import { inWords } from "../search.js";

export const moves = (operation) => ["pending", "running"].includes(operation?.status);

export const title = ({ path }) => path[1] && `Operation ${path[1]}`;

export const load = ({ path, page, find }) => (path[1] ? find(path) : page(path));

const progress = ({ affected, dry_run: dry, status, total_estimated: total }) =>
	dry ? faint(`dry run: ${count(total)}`) : level(total ? affected / total : 1, `${count(affected)} of ~${count(total)}`, { tone: status === "failed" ? "bad" : "" });

const end = (operation) =>
	moves(operation) && asking("End it", { tone: "danger", title: "End this operation?", text: "What it has done stays done.", confirm: "End 1 operation", send: ["DELETE", ["operations", operation.id]] });

export const draw = (data, { path }) => (path[1] ? one(data) : list(data));

function one(operation) {
	if (!operation) return empty("There is no such operation", "Finished ones are kept for 7 days.");
	const { affected, dry_run: dry, error, id, status: stage, total_estimated: total } = operation;
	return section(
		id,
		{ aside: end(operation) },
		h("div.inset", progress(operation)),
		facts([
			["Status", status(stage), stage === "pending" && faint(" – workers do it in batches, in turns with their other duties")],
			["Changed", `${count(affected)} of about ${plural(total, "job")}`],
			["Dry run", dry ? "yes" : "no"],
			error && ["Error", error],
		]),
	);
}

const list = (operations) => [
	table(
		"Operations",
		[
			["Operation", "main", ({ id }) => name(id, ["operations", id], { mono: true })],
			["What", "tight", ({ action }) => action.replace("_", " ")],
			["Of", "prose", ({ selector }) => inWords(selector)],
			["Status", "tight", (each) => status(each.status, each.error)],
			["Done", "share", progress],
			times("Begun", "created_at_ms"),
			times("Ended", "finished_at_ms", "time minor"),
			buttons(end),
		],
		operations.items,
		{ key: "id", nothing: ["No operation is kept", "Retry, cancel or delete all jobs of a list, and see here how far that is."] },
	),
	offsetPager(operations),
];
