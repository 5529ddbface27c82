// Workflows: jobs that wait for each other, as a graph.

import { asking, badge, cursorPager, empty, h, jobName, name, plural, relative, section, shape, table, times, tools } from "../kit.js";

export const title = ({ path }) => path[1] && `Workflow ${path[1]}`;

export const load = ({ path, query, get, find }) => (path[1] ? find(path) : get(path, { limit: 50, cursor: query.cursor }));

export const draw = (data, { path }) => (path[1] ? one(data) : list(data));

const list = ({ workflows, next_cursor: next }) => [
	table(
		"Workflows",
		[
			["Workflow", "main", ({ workflow_id: id }) => name(id, ["workflows", id], { mono: true })],
			["State", "state", ({ state }) => badge(state)],
			["Coordinator", "kind", ({ coordinator_job_id: id }) => jobName(id)],
			times("Begun", "enqueued_at_ms"),
			times("Ended", "finalized_at_ms"),
		],
		workflows,
		{ key: "workflow_id", nothing: ["There is no workflow yet", "Your application begins them, with jobs that wait for each other."] },
	),
	cursorPager(next),
];

const WIDTH = 220;
const NODE = 180;
const HEIGHT = 58;
const MIDDLE = 21;

// Each node stands one column right of the last one it waits for; all of those come before it.
function placesOf(nodes) {
	const places = new Map();
	const heights = [];
	for (const { name, dependencies } of nodes) {
		const x = Math.max(-1, ...dependencies.map((each) => places.get(each)?.x ?? -1)) + 1;
		const y = heights[x] ?? 0;
		heights[x] = y + 1;
		places.set(name, { x, y });
	}
	return { places, width: heights.length * WIDTH, height: Math.max(1, ...heights) * HEIGHT };
}

function graph(nodes) {
	const { places, width, height } = placesOf(nodes);
	const done = new Set(nodes.filter(({ state }) => state === "completed").map(({ name }) => name));
	const at = (name) => ({ x: places.get(name).x * WIDTH, y: places.get(name).y * HEIGHT });
	const edge = (from, to) => {
		const [a, b] = [at(from), at(to)];
		const x = a.x + NODE;
		const [y, end] = [a.y + MIDDLE, b.y + MIDDLE];
		return h("path", { class: done.has(from) ? "edge done" : "edge", d: `M${x} ${y}C${x + 20} ${y} ${b.x - 20} ${end} ${b.x} ${end}` });
	};
	const node = ({ name: label, job_id: id, finalized_at_ms: ended, job_kind: kind, state }) => {
		const { x, y } = at(label);
		return h(
			"li",
			{ key: label, class: `node state-${state}`, title: `${kind}${ended ? ` ${relative(ended)}` : ""}`, style: { left: `${x}px`, top: `${y}px` } },
			shape(state),
			name(label, id && ["jobs", id]),
			h("small", state),
		);
	};
	return h(
		"div.graph",
		{ tabindex: "0", role: "region", "aria-label": "Graph of the workflow" },
		h(
			"div.canvas",
			{ style: { width: `${width}px`, height: `${height}px` } },
			h("svg", { width, height }, nodes.flatMap(({ name, dependencies }) => dependencies.filter((each) => places.has(each)).map((each) => edge(each, name)))),
			h("ol", nodes.map(node)),
		),
	);
}

function one(workflow) {
	if (!workflow) return empty("There is no such workflow", "It may be over for longer than it is kept.");
	const { coordinator_job_id: coordinator, failed, finalized_at_ms: ended, nodes, revision, state, workflow_id: id } = workflow;
	const path = ["workflows", id];
	const act = (label, question) => asking(label, { small: false, what: "1 workflow", ...question });
	return [
		h(
			"div.headline",
			badge(state),
			name(id, null, { mono: true }),
			tools(
				act("Retry", {
					reason: failed ? "" : "nothing in it has failed",
					title: "Retry what failed?",
					text: "What was completed is not run again; what was stopped follows in its turn.",
					send: ["POST", [...path, "retry"], { expected_revision: revision }],
				}),
				act("Cancel", { tone: "danger", reason: ended ? "it is over" : "", title: "Cancel this workflow?", text: "With everything that it began.", send: ["POST", [...path, "cancel"]] }),
			),
		),
		section("Graph", { note: [plural(nodes.length, "job"), " · led by ", jobName(coordinator)] }, graph(nodes)),
	];
}
