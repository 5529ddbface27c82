// Who is signed in, and what is allowed to them.

import { ApiError, get, setToken } from "./api.js";

const STORED = "headgate.token";
const EVERYTHING = ["viewer", "producer", "operator", "admin"];

export const session = { identity: "", roles: [], readOnly: false, payloads: false, version: "" };

// Takes up what this tab was told before.
export function resume() {
	try {
		setToken(sessionStorage.getItem(STORED) ?? "");
	} catch {
		// Without storage a token lives as long as the page.
	}
}

// Asks the API who this is. Raises ApiError; 401 means that a token is needed.
export async function begin(signal) {
	const [who, meta] = await Promise.all([get(["session"], {}, signal), get(["meta"], {}, signal)]);
	session.identity = who.identity;
	session.roles = who.roles;
	session.readOnly = who.read_only;
	session.payloads = who.payloads;
	session.workflows = who.workflows;
	session.version = meta.version;
	session.notifying = meta.capabilities.includes("notifying");
}

export async function signIn(token, { keep }) {
	// Whatever is pasted may end up in a header.
	if (!/^[\x21-\x7e]+$/.test(token)) throw new ApiError(401, "this is no token");
	setToken(token);
	try {
		await begin();
	} catch (error) {
		setToken("");
		throw error;
	}
	try {
		if (keep) sessionStorage.setItem(STORED, token);
	} catch {
		// It lives as long as the page, then.
	}
}

export function signOut() {
	setToken("");
	try {
		sessionStorage.removeItem(STORED);
	} catch {
		// There was nothing to remove.
	}
}

export function isNamed() {
	return session.identity !== "";
}

export function sees(role) {
	return session.roles.includes(role);
}

// Why somebody cannot do what needs `role`; "" when they can.
export function hindrance(role) {
	if (session.readOnly) return "this console is read-only";
	if (sees(role)) return "";
	return `only ${EVERYTHING.slice(EVERYTHING.indexOf(role)).join(" and ")} may do this`;
}
