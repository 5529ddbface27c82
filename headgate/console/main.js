// The frame around the views: who is there, where one is, and when to look again.

import { h, render } from "./dom.js";
import { go, here, href } from "./address.js";
import { begin, isNamed, resume, sees, session, signOut } from "./session.js";
import { help, listen } from "./keys.js";
import { isOpen } from "./dialog.js";
import { Live } from "./live.js";
import { failure, empty } from "./parts.js";
import { signInForm } from "./views/sign_in.js";
import * as audit from "./views/audit.js";
import * as enqueue from "./views/enqueue.js";
import * as job from "./views/job.js";
import * as jobs from "./views/jobs.js";
import * as operations from "./views/operations.js";
import * as overview from "./views/overview.js";
import * as periodic from "./views/periodic.js";
import * as policies from "./views/policies.js";
import * as quarantine from "./views/quarantine.js";
import * as queue from "./views/queue.js";
import * as queues from "./views/queues.js";
import * as workers from "./views/workers.js";
import * as workflows from "./views/workflows.js";

// The first name of a path, then the view of the list and that of one thing.
const VIEWS = {
	"": [overview],
	jobs: [jobs, job],
	enqueue: [enqueue],
	queues: [queues, queue],
	periodic: [periodic, periodic],
	workers: [workers],
	policies: [policies],
	quarantine: [quarantine],
	operations: [operations, operations],
	workflows: [workflows, workflows],
	audit: [audit],
};

const PLACES = [
	["Overview", []],
	["Jobs", ["jobs"]],
	["Queues", ["queues"]],
	["Periodic", ["periodic"]],
	["Workflows", ["workflows"], () => session.workflows],
	["Workers", ["workers"]],
	["Policies", ["policies"]],
	["Quarantine", ["quarantine"]],
	["Operations", ["operations"]],
	["Audit", ["audit"], () => sees("admin")],
];

const MOST_KEPT = 8;
const TICK_MS = 1000;
const root = document.getElementById("console");

const state = { signedIn: false, starting: true, problem: null, menu: false };
let page = null;
const kept = new Map();
const live = new Live(() => load(), () => draw());

function viewOf(path) {
	const [list, one] = VIEWS[path[0] ?? ""] ?? [];
	return path.length > 2 ? undefined : path.length === 2 ? one : list;
}

function navigate() {
	const address = here();
	const hash = href(address.path, address.query);
	const place = href(address.path);
	state.menu = false;
	if (page?.place !== place) {
		page?.controller?.abort();
		page = { view: viewOf(address.path), place, local: {}, data: null, error: null };
	}
	Object.assign(page, { address, hash, typed: location.hash, looks: 0, arriving: true, scroll: history.state?.scroll });
	if (kept.has(hash)) page.data = kept.get(hash);
	else if (page.data) page.stale = true;
	draw();
	settle();
	load();
}

const context = {
	get path() {
		return page.address.path;
	},
	get query() {
		return page.address.query;
	},
	// What the view keeps while one stays there.
	get local() {
		return page.local;
	},
	update: () => draw(),
	refresh: () => load(),
};

async function load() {
	const mine = page;
	if (!mine?.view || !state.signedIn) return;
	mine.controller?.abort();
	const controller = new AbortController();
	mine.controller = controller;
	const begun = performance.now();
	const hash = mine.hash;
	try {
		const data = await mine.view.load({ ...ask(mine), signal: controller.signal, previous: mine.data });
		if (controller.signal.aborted || page !== mine) return;
		Object.assign(mine, { data, error: null, stale: false });
		keep(hash, data);
	} catch (error) {
		if (controller.signal.aborted || page !== mine || error.name === "AbortError") return;
		if (error.status === 401) {
			leave();
			return;
		}
		if (error.status === undefined) console.error(error);
		Object.assign(mine, { error, stale: false });
	}
	mine.looks += 1;
	live.looked({ failed: mine.error !== null && !(mine.error.status < 500), tookMs: performance.now() - begun });
	draw();
	settle();
}

const ask = (mine) => ({ path: mine.address.path, query: mine.address.query, local: mine.local });

// The newest answers, so that going back shows at once what was there.
function keep(hash, data) {
	kept.delete(hash);
	kept.set(hash, data);
	if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
}

// Goes where one was on this page, once there is something to go to.
function settle() {
	if (!page.arriving || (!page.data && !page.error)) return;
	page.arriving = false;
	scrollTo(0, page.scroll ?? 0);
}

function leave() {
	live.stop();
	page?.controller?.abort();
	kept.clear();
	Object.assign(state, { signedIn: false, starting: false });
	draw();
}

async function start() {
	Object.assign(state, { starting: true, problem: null });
	draw();
	try {
		await begin();
	} catch (error) {
		state.starting = false;
		state.problem = error.status === 401 || error.status === 403 ? null : error;
		draw();
		return;
	}
	enter();
}

function enter() {
	Object.assign(state, { signedIn: true, starting: false, problem: null });
	navigate();
	live.start({ events: session.notifying && sees("viewer") });
}

function draw() {
	document.title = `${title()} · Headgate`;
	if (state.problem) render(root, h("main.alone", brand(), failure(state.problem, start)));
	else if (state.starting) render(root, h("main.alone", brand(), h("p.faint", "Asking the API…")));
	else if (!state.signedIn) render(root, h("main.alone", brand(), signInForm({ signedIn: enter, update: draw })));
	else render(root, skip(), side(), h("div.page", bar(), main()));
}

const title = () => (state.signedIn && page?.view ? page.view.title(page.address) : "Console");

const skip = () => h("a.skip", { href: location.hash || "#/", onclick: toMain }, "Skip to the contents");

function toMain(event) {
	event.preventDefault();
	document.querySelector("main").focus();
}

function brand() {
	return h(
		"a.brand",
		{ href: "#/" },
		h(
			"svg",
			{ viewBox: "0 0 32 32", "aria-hidden": "true" },
			h("path.post", { d: "M6 4v24M26 4v24" }),
			h("path.leaf", { d: "M10.5 5h11v10h-11zM10.5 10h11" }),
			h("path.wave", { d: "M2 24.5q3.5-3.4 7 0t7 0 7 0 7 0" }),
		),
		"Headgate",
	);
}

function side() {
	const first = page.address.path[0] ?? "";
	return h(
		"aside",
		{ class: state.menu ? "side open" : "side", key: "side" },
		brand(),
		h(
			"nav",
			{ "aria-label": "Places", id: "places" },
			PLACES.filter(([, , shown]) => !shown || shown()).map(([name, path]) =>
				h("a", { key: name, href: href(path), "aria-current": (path[0] ?? "") === first ? "page" : null }, name),
			),
		),
		h(
			"div.who",
			session.readOnly && h("span.tag", "read-only"),
			isNamed() && h("span.identity", { title: session.identity }, session.identity),
			isNamed() && h("span.roles", widest()),
			isNamed() && h("button.plain", { type: "button", onclick: out }, "Sign out"),
			h("a.plain", { href: new URL("../../api/v1/docs", import.meta.url).href }, "API"),
			h("span.version", session.version),
		),
	);
}

const widest = () => ["admin", "operator", "producer", "viewer"].find(sees) ?? "no role";

function out() {
	signOut();
	leave();
}

function bar() {
	return h(
		"header.bar",
		{ key: "bar" },
		h("button.menu", { type: "button", "aria-label": "Places", "aria-expanded": String(state.menu), "aria-controls": "places", onclick: () => { state.menu = !state.menu; draw(); } }, icon("M2 4h12M2 8h12M2 12h12")),
		h("h1", { title: title() }, title()),
		h("div.tools", liveSwitch(), tool("Look again (r)", "M13 3v3.5H9.5M13 6.5A5.2 5.2 0 1 0 13.2 9", () => load()), themeSwitch(), tool("Keyboard (?)", "M6.2 6a1.9 1.9 0 1 1 2.6 1.8c-.6.2-.8.6-.8 1.2v.3M8 11.6v.6", help)),
	);
}

const icon = (d) => h("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, h("path", { d }));

const tool = (label, d, onclick) => h("button.tool", { type: "button", title: label, "aria-label": label, onclick }, icon(d));

function liveSwitch() {
	const failing = live.failures > 0 && !live.paused;
	const text = live.paused ? "paused" : failing ? "no answer" : live.streaming ? "live" : "polling";
	return h(
		"button",
		{
			type: "button",
			class: `live ${live.paused ? "off" : failing ? "bad" : "on"}`,
			"aria-pressed": String(!live.paused),
			title: live.paused ? "Updates are paused; press to resume (l)" : "Updates by themselves; press to pause (l)",
			onclick: () => live.pause(!live.paused),
		},
		h("span.drop", { "aria-hidden": "true" }),
		text,
	);
}

const THEMES = ["system", "light", "dark"];

function theme() {
	try {
		return THEMES.find((name) => name === localStorage.getItem("headgate.theme")) ?? "system";
	} catch {
		return "system";
	}
}

function setTheme(name) {
	try {
		localStorage.setItem("headgate.theme", name);
	} catch {
		// It holds for this page, then.
	}
	if (name === "system") delete document.documentElement.dataset.theme;
	else document.documentElement.dataset.theme = name;
}

function themeSwitch() {
	const now = theme();
	const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
	const drawn = { system: "M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11", light: "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6M8 1.5v1.4M8 13.1v1.4M1.5 8h1.4M13.1 8h1.4M3.4 3.4l1 1M11.6 11.6l1 1M3.4 12.6l1-1M11.6 4.4l1-1", dark: "M12.9 9.6A5.5 5.5 0 0 1 6.4 3.1a5.5 5.5 0 1 0 6.5 6.5z" }[now];
	return tool(`Colours: ${now}; press for ${next}`, drawn, () => {
		setTheme(next);
		draw();
	});
}

function main() {
	const { view, data, error, stale } = page;
	let content;
	if (!view) content = empty("There is no such place", "The address does not lead anywhere.");
	else if (data) content = [error && failure(error, () => load()), h("div", { key: page.place, class: "view" }, view.draw(data, context))];
	else if (error) content = failure(error, () => load());
	else content = h("div.waiting", { "aria-hidden": "true" }, [1, 2, 3].map(() => h("span")));
	return h(
		"main",
		{
			tabindex: "-1",
			key: "main",
			"aria-busy": String(Boolean(view) && !data && !error),
			class: stale ? "stale" : "",
			// What is shown, and how many answers to it were: for whoever drives the page by a program.
			"data-address": page.typed,
			"data-looks": view ? page.looks : 1,
		},
		content,
	);
}

function escape() {
	if (!page?.view?.escape?.(context)) document.activeElement?.blur?.();
	draw();
}

let scrolling = 0;
addEventListener("scroll", () => {
	clearTimeout(scrolling);
	scrolling = setTimeout(() => history.replaceState({ scroll: scrollY }, ""), 100);
});

history.scrollRestoration = "manual";
addEventListener("hashchange", () => {
	clearTimeout(scrolling);
	if (state.signedIn) navigate();
});
// Times that are told relative to now go on.
setInterval(() => {
	if (state.signedIn && document.visibilityState === "visible" && !isOpen()) draw();
}, TICK_MS);

setTheme(theme());
resume();
listen({ refresh: () => load(), pause: () => live.pause(!live.paused), escape });
start();
