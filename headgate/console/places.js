// Where one can go: the title, the first name of the path, and the key after g.

import { sees, session } from "./session.js";

const PLACES = [
	["Overview", "", "o"],
	["Jobs", "jobs", "j"],
	["Queues", "queues", "q"],
	["Periodic", "periodic", "p"],
	["Workflows", "workflows", "f", () => session.workflows],
	["Workers", "workers", "w"],
	["Policies", "policies", "l"],
	["Quarantine", "quarantine", "u"],
	["Operations", "operations", "b"],
	["Audit", "audit", "a", () => sees("admin")],
];

export const titleOf = ([first = ""]) => PLACES.find(([, name]) => name === first)?.[0];

export const places = () =>
	PLACES.filter(([, , , shown]) => !shown || shown()).map(([title, name, key]) => ({ title, name, key, path: name ? [name] : [] }));
