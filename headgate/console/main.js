// The frame around the views: who is there, where one is, and when to look again.

import { h, render } from "./dom.js";
import { here, href } from "./address.js";
import { reader } from "./api.js";
import { isOpen } from "./dialog.js";
import { serve } from "./frame.js";
import { help, listen } from "./keys.js";
import { Live } from "./live.js";
import { empty, failure, icon } from "./parts.js";
import { places, titleOf } from "./places.js";
import { begin, resume, sees, session, signOut, widest } from "./session.js";
import { keep, recall } from "./stored.js";
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

const MOST_KEPT = 8;
const TICK_MS = 1000;
const root = document.getElementById("console");

// "starting", "broken" for want of an answer, "door" for want of a token, or "inside".
let stage = "starting";
let problem = null;
let menu = false;
let page = null;
const kept = new Map();
const live = new Live(load, draw);
serve({ refresh: load, update: draw });

function viewOf(path) {
	const [list, one] = VIEWS[path[0] ?? ""] ?? [];
	return path.length > 2 ? undefined : path.length === 2 ? one : list;
}

function navigate() {
	const address = here();
	const hash = href(address.path, address.query);
	const place = href(address.path);
	menu = false;
	if (page?.place !== place) {
		page?.controller?.abort();
		page = { view: viewOf(address.path), place, local: {} };
	}
	Object.assign(page, { address, hash, typed: location.hash, looks: 0, arriving: true, scroll: history.state?.scroll });
	page.stale = !kept.has(hash) && page.data !== undefined;
	if (kept.has(hash)) page.data = kept.get(hash);
	draw();
	settle();
	load();
}

// Where one is, and what the view keeps while one stays there.
const context = () => ({ ...page.address, local: page.local });

// A view may have some of it shown `first`; `known` is what was shown last.
async function load() {
	const mine = page;
	if (!mine?.view || stage !== "inside") return;
	mine.controller?.abort();
	mine.controller = new AbortController();
	const { controller: { signal }, hash } = mine;
	const begun = performance.now();
	const show = (what, whole = true) => {
		if (signal.aborted) return;
		Object.assign(mine, { stale: false, looks: mine.looks + whole || 1 }, what);
		if (!what.error) remember(hash, what.data);
		if (whole) live.looked({ failed: what.error && (what.error.status || 500) >= 500, moves: mine.view.moves?.(mine.data), tookMs: performance.now() - begun });
		draw();
		settle();
	};
	try {
		const first = (data) => show({ data, error: null }, false);
		const data = await mine.view.load({ ...mine.address, ...reader(signal, mine.address.query.cursor), known: mine.data, first });
		show({ data, error: null });
	} catch (error) {
		if (signal.aborted) return;
		if (error.status === 401) return leave();
		if (error.status === undefined) console.error(error);
		show({ error });
	}
}

// The newest answers, so that going back shows at once what was there.
function remember(hash, data) {
	kept.delete(hash);
	kept.set(hash, data);
	if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
}

// Goes where one was on this page, once there is something to go to.
function settle() {
	if (!page.arriving || (page.data === undefined && !page.error)) return;
	page.arriving = false;
	scrollTo(0, page.scroll ?? 0);
}

function leave() {
	live.end();
	page?.controller?.abort();
	kept.clear();
	show("door");
}

async function start() {
	show("starting");
	try {
		await begin();
		enter();
	} catch (error) {
		problem = error;
		show(error.status === 401 || error.status === 403 ? "door" : "broken");
	}
}

function enter() {
	stage = "inside";
	navigate();
	live.start({ events: session.notifying && sees("viewer") });
}

function show(given) {
	stage = given;
	draw();
	document.querySelector("[data-first]")?.focus();
}

function draw() {
	document.title = `${title()} · Headgate`;
	const alone = {
		starting: () => h("p.faint", "Asking the API…"),
		broken: () => failure(problem, start),
		door: () => signInForm({ signedIn: enter, update: draw }),
	}[stage];
	if (alone) render(root, h("main.alone", brand(), alone()));
	else render(root, skip(), side(), h("div.page", bar(), main()));
}
const title = () => (stage === "inside" && page?.view && (page.view.title?.(page.address) || titleOf(page.address.path))) || "Console";

const skip = () => h("a.skip", { href: location.hash || "#/", onclick: toMain }, "Skip to the contents");
function toMain(event) {
	event.preventDefault();
	document.querySelector("main").focus();
}

const brand = () => h(
	"a.brand",
	{ href: "#/" },
	h("svg", { viewBox: "0 0 32 32" }, h("path", { d: "M6 4v24M26 4v24" }), h("path.leaf", { d: "M10.5 5h11v10h-11zM10.5 10h11" }), h("path.wave", { d: "M2 24.5q3.5-3.4 7 0t7 0 7 0 7 0" })),
	"Headgate",
);

function side() {
	const first = page.address.path[0] ?? "";
	return h(
		"aside",
		{ class: menu ? "side open" : "side", key: "side" },
		brand(),
		h(
			"nav",
			{ "aria-label": "Places", id: "places" },
			places().map(({ title, name, path }) => h("a", { key: name, href: href(path), "aria-current": name === first ? "page" : null }, title)),
		),
		h(
			"div.who",
			session.read_only && h("span.tag", "read-only"),
			session.identity && [h("span.identity", { title: session.identity }, session.identity), h("span", widest()), h("button.plain", { onclick: out }, "Sign out")],
			h("a.plain", { href: new URL("../../api/v1/docs", import.meta.url).href }, "API"),
			h("span", session.version),
		),
	);
}

function out() {
	signOut();
	leave();
}

const bar = () => h(
	"header.bar",
	{ key: "bar" },
	h("button.tool.menu", { "aria-label": "Places", "aria-expanded": String(menu), "aria-controls": "places", onclick: () => { menu = !menu; draw(); } }, icon("M2 4h12M2 8h12M2 12h12")),
	h("h1", { title: title() }, title()),
	h("div.tools", liveSwitch(), tool("Look again (r)", "M13 3v3.5H9.5M13 6.5A5.2 5.2 0 1 0 13.2 9", load), themeSwitch(), tool("Keyboard (?)", "M6.2 6a1.9 1.9 0 1 1 2.6 1.8c-.6.2-.8.6-.8 1.2v.3M8 11.6v.6", help)),
);

const tool = (label, d, onclick) => h("button.tool", { title: label, "aria-label": label, onclick }, icon(d));

function liveSwitch() {
	const failing = live.failures > 0;
	const text = live.paused ? "paused" : failing ? "no answer" : live.streaming ? "live" : "polling";
	return h(
		"button",
		{
			class: `live ${live.paused ? "off" : failing ? "bad" : ""}`,
			"aria-pressed": String(!live.paused),
			title: live.paused ? "Updates are paused; press to resume (l)" : "Updates by themselves; press to pause (l)",
			onclick: () => live.pause(!live.paused),
		},
		h("span.drop"),
		text,
	);
}

const THEMES = {
	system: "M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11",
	light: "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6M8 1.5v1.4M8 13.1v1.4M1.5 8h1.4M13.1 8h1.4M3.4 3.4l1 1M11.6 11.6l1 1M3.4 12.6l1-1M11.6 4.4l1-1",
	dark: "M12.9 9.6A5.5 5.5 0 0 1 6.4 3.1a5.5 5.5 0 1 0 6.5 6.5z",
};
const THEME = ["localStorage", "headgate.theme"];

let theme = recall(...THEME) ?? "system";

function setTheme(name) {
	theme = name in THEMES ? name : "system";
	keep(...THEME, theme);
	document.documentElement.dataset.theme = theme;
}

function themeSwitch() {
	const names = Object.keys(THEMES);
	const next = names[(names.indexOf(theme) + 1) % names.length];
	return tool(`Colours: ${theme}; press for ${next}`, THEMES[theme], () => {
		setTheme(next);
		draw();
	});
}

function main() {
	const { view, data, error, stale } = page;
	const waits = view && data === undefined && !error;
	let content;
	if (!view) content = empty("There is no such place", "The address does not lead anywhere.");
	else if (waits) content = h("div.waiting", { "aria-hidden": "true" }, [1, 2, 3].map(() => h("span")));
	else content = [error && failure(error, load), h("div", { key: page.place, class: "view" }, data !== undefined && view.draw(data, context()))];
	return h(
		"main",
		{
			tabindex: "-1",
			key: "main",
			"aria-busy": String(Boolean(waits)),
			class: stale ? "stale" : "",
			// For whoever drives the page by a program.
			"data-address": page.typed,
			"data-looks": view ? page.looks : 1,
		},
		content,
	);
}

function escape() {
	if (!page?.view?.escape?.(context())) document.activeElement?.blur?.();
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
	if (stage === "inside") navigate();
});
// Times that are told relative to now go on.
setInterval(() => {
	if (stage === "inside" && document.visibilityState === "visible" && !isOpen()) draw();
}, TICK_MS);

setTheme(theme);
resume();
listen({ refresh: load, pause: () => live.pause(!live.paused), escape });
start();
