// Who is signed in, and what is allowed to them.

import { ApiError, get, setToken } from "./api.js";
import { keep, recall } from "./stored.js";

const STORED = ["sessionStorage", "headgate.token"];
const EVERYTHING = ["viewer", "producer", "operator", "admin"];

export const session = { identity: "", roles: [], read_only: false, payloads: false, version: "" };
export const resume = () => setToken(recall(...STORED) ?? "");

// Asks the API who this is. Raises ApiError; 401 means that a token is needed.
export async function begin() {
	const [who, { version, capabilities }] = await Promise.all([get(["session"]), get(["meta"])]);
	Object.assign(session, who, { version, notifying: capabilities.includes("notifying") });
}

export async function signIn(token, { kept }) {
	// Whatever is pasted may end up in a header.
	if (!/^[\x21-\x7e]+$/.test(token)) throw new ApiError(401, "this is no token");
	setToken(token);
	try {
		await begin();
	} catch (error) {
		setToken("");
		throw error;
	}
	if (kept) keep(...STORED, token);
}

export function signOut() {
	setToken("");
	keep(...STORED, null);
}

export const sees = (role) => session.roles.includes(role);
export const widest = () => EVERYTHING.findLast(sees) ?? "no role";

// Why somebody has not got `role`; "" when they have.
export const missing = (role) => (sees(role) ? "" : `only ${EVERYTHING.slice(EVERYTHING.indexOf(role)).join(" and ")} may do this`);

// Why somebody cannot change what needs `role`; "" when they can.
export const hindrance = (role) => (session.read_only ? "this console is read-only" : missing(role));
