// Workflows: jobs that wait for each other, as a graph.

import { h } from "../dom.js";
import { find, get } from "../api.js";
import { count, time } from "../format.js";
import { asking, empty, facts, link, name, pager, section, table } from "../parts.js";
import { badge, shape } from "../states.js";

export const title = ({ path }) => (path[1] ? `Workflow ${path[1]}` : "Workflows");

export async function load({ path, query, signal }) {
	if (path[1]) return { one: await find(["workflows", path[1]], {}, signal) };
	return get(["workflows"], { limit: 50, cursor: query.cursor }, signal);
}

export function draw(data, { path, query, refresh }) {
	if (path[1]) return data.one ? one(data.one, refresh) : empty("There is no such workflow");
	const { workflows, next_cursor: next } = data;
	if (!workflows.length && !query.cursor) return empty("There is no workflow yet");
	return [
		table(
			"Workflows",
			[
				["Workflow", "main", (each) => name(each.workflow_id, { path: ["workflows", each.workflow_id], mono: true })],
				["State", "state", (each) => badge(each.state)],
				["Coordinator", "kind", (each) => name(each.coordinator_job_id, { path: ["jobs", each.coordinator_job_id], mono: true })],
				["Begun", "time", (each) => time(each.enqueued_at_ms)],
				["Ended", "time", (each) => time(each.finalized_at_ms)],
			],
			workflows,
			{ key: (each) => each.workflow_id },
		),
		pager({ previous: query.cursor && { path: ["workflows"] }, next: next && { path: ["workflows"], query: { cursor: next } } }),
	];
}

// Each node stands one column right of the last one it waits for.
function columnsOf(nodes) {
	const byName = new Map(nodes.map((node) => [node.name, node]));
	const depths = new Map();
	const depth = (node, seen) => {
		if (depths.has(node.name) || seen.has(node.name)) return depths.get(node.name) ?? 0;
		const before = (node.dependencies ?? []).map((each) => byName.get(each)).filter(Boolean);
		const found = Math.max(-1, ...before.map((each) => depth(each, new Set([...seen, node.name])))) + 1;
		depths.set(node.name, found);
		return found;
	};
	const columns = [];
	for (const node of nodes) (columns[depth(node, new Set())] ??= []).push(node);
	return columns;
}

const WIDTH = 220;
const HEIGHT = 58;

function graph(nodes) {
	const columns = columnsOf(nodes);
	const place = new Map();
	columns.forEach((column, x) => column.forEach((node, y) => place.set(node.name, { x: x * WIDTH, y: y * HEIGHT })));
	const size = { width: columns.length * WIDTH, height: Math.max(1, ...columns.map((column) => column.length)) * HEIGHT };
	const edges = nodes.flatMap((node) => (node.dependencies ?? []).filter((each) => place.has(each)).map((each) => [each, node]));
	const done = new Map(nodes.map((node) => [node.name, node.state === "completed"]));
	return h(
		"div.graph",
		h(
			"div.canvas",
			{ style: { width: `${size.width}px`, height: `${size.height}px` } },
			h("svg", { width: size.width, height: size.height, "aria-hidden": "true" }, edges.map(([from, to]) => {
				const a = place.get(from);
				const b = place.get(to.name);
				const x = a.x + WIDTH - 40;
				return h("path", { class: done.get(from) ? "edge done" : "edge", d: `M${x} ${a.y + 21}C${x + 20} ${a.y + 21} ${b.x - 20} ${b.y + 21} ${b.x} ${b.y + 21}` });
			})),
			nodes.map((node) => h("div", { key: node.name, class: `node state-${node.state}`, style: { left: `${place.get(node.name).x}px`, top: `${place.get(node.name).y}px` } }, shape(node.state), name(node.name, node.job_id ? { path: ["jobs", node.job_id] } : {}), h("span.faint", node.kind))),
		),
	);
}

function one(workflow, refresh) {
	const path = ["workflows", workflow.workflow_id];
	const nodes = workflow.nodes ?? [];
	return [
		h(
			"div.headline",
			workflow.state && badge(workflow.state),
			name(workflow.workflow_id, { mono: true }),
			h(
				"div.tools",
				asking("Retry", { small: false, reason: workflow.failed ? "" : "nothing in it has failed", refresh, send: () => ["POST", [...path, "retry"], { expected_revision: workflow.revision }], question: { title: "Retry what failed?", text: "What was completed is not run again; what was stopped follows in its turn.", confirm: "Retry 1 workflow" } }),
				asking("Cancel", { small: false, tone: "danger", refresh, reason: workflow.finalized_at_ms ? "it is over" : "", send: () => ["POST", [...path, "cancel"]], question: { title: "Cancel this workflow?", text: "With everything that it began.", confirm: "Cancel 1 workflow" } }),
			),
		),
		section("Graph", { note: `${count(nodes.length)} nodes · revision ${workflow.revision ?? 0}` }, graph(nodes)),
		section("Facts", {}, facts([workflow.coordinator_job_id && ["Coordinator", link(["jobs", workflow.coordinator_job_id], {}, workflow.coordinator_job_id)], ["Generation", count(workflow.generation ?? 0)], ["Failed", workflow.failed ? "yes" : "no"]])),
	];
}
