// The one client of the control API.

const BASE = new URL("../../api/v1/", import.meta.url);
const BIG = /\d{16}/;

let token = "";
let skewMs = 0;

export function setToken(value) {
	token = value;
}

// The time of the server, which may differ from that of this machine.
export const now = () => Date.now() + skewMs;

export class ApiError extends Error {
	constructor(status, message, body = {}) {
		super(message);
		this.status = status;
		this.body = body;
	}
}

// What reads until `signal` fires, lists from `cursor` on. An answer is the JSON of its body, or
// null without one; integers that do not fit a number are BigInts. All raise ApiError, and
// AbortError once `signal` has fired.
export function reader(signal, cursor) {
	const ask = async (path, query) => read(await send("GET", path, { query, signal }));
	const get = async (path, query) => (await ask(path, query)).value;

	// A page of a list: its items and where the next one begins, or null.
	async function page(path, query) {
		const asked = { limit: 50, cursor, ...query };
		const { value, headers } = await ask(path, asked);
		return { items: value, next: headers.get("x-next-cursor"), size: asked.limit };
	}

	// Like `get`, but null for what is not there.
	const find = (path) =>
		get(path).catch((error) => {
			if (error.status === 404) return null;
			throw error;
		});

	return { get, page, find };
}
export async function together(asked) {
	const answers = await Promise.all(Object.values(asked));
	return Object.fromEntries(Object.keys(asked).map((name, index) => [name, answers[index]]));
}

export const { get, page } = reader();

// A name for one intent; its repetition acts once.
export function newKey() {
	const bytes = crypto.getRandomValues(new Uint8Array(12));
	return `console-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
export async function mutate(method, path, body, { query, key = newKey() } = {}) {
	return read(await send(method, path, { query, body, key }));
}

export const stream = (path, signal) => send("GET", path, { signal, accept: "text/event-stream" });

async function send(method, path, { query, body, key, signal, accept } = {}) {
	const headers = { accept: accept ?? "application/json" };
	if (token) headers.authorization = `Bearer ${token}`;
	if (key) headers["idempotency-key"] = key;
	if (body !== undefined) headers["content-type"] = "application/json";
	const url = address(path, query);
	let answer;
	try {
		answer = await fetch(url, {
			method,
			headers,
			signal,
			body: body === undefined ? undefined : encode(body),
			cache: "no-store",
			credentials: "same-origin",
		});
	} catch (error) {
		if (error.name === "AbortError") throw error;
		throw new ApiError(0, "the API does not answer");
	}
	noteTime(answer.headers.get("date"));
	return answer;
}

// A browser takes these for steps in a path, encoded or not.
const STEPS = [".", ".."];
export const askable = ({ queue }) => !STEPS.includes(queue);

function address(path, query) {
	if (path.some((name) => STEPS.includes(name))) {
		throw new ApiError(0, "a browser cannot ask for something named . or ..");
	}
	const url = new URL(path.map(encodeURIComponent).join("/"), BASE);
	for (const [name, value] of Object.entries(query ?? {})) {
		if (value !== undefined && value !== null) url.searchParams.set(name, String(value));
	}
	return url;
}

const encode = (body) => JSON.stringify(body, (_, value) =>
	typeof value === "bigint" ? JSON.rawJSON?.(value.toString()) ?? Number(value) : value,
);

async function read(answer) {
	const text = await answer.text();
	const value = text && isJson(answer) ? decode(text) : text || null;
	if (answer.ok) return { value, headers: answer.headers };
	const message = value?.error ?? `${answer.status} ${answer.statusText}`.trim();
	throw new ApiError(answer.status, message, value ?? {});
}

const isJson = (answer) => (answer.headers.get("content-type") ?? "").startsWith("application/json");

function decode(text) {
	if (!BIG.test(text)) return JSON.parse(text);
	return JSON.parse(text, (_, value, context) =>
		Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "")
			? BigInt(context.source)
			: value,
	);
}

function noteTime(date) {
	const found = Date.parse(date ?? "") - Date.now();
	// The header counts whole seconds.
	if (!Number.isNaN(found)) skewMs = Math.abs(found) > 2000 ? found : 0;
}
