// What is looked at, as it stands in the address bar: `#/jobs/id?state=archived`.
// It is the fragment, so that the console works below any prefix and no name reaches a server log.

export function parse(hash) {
	const [path, query = ""] = splitOnce(hash.replace(/^#\/?/, ""), "?");
	try {
		return {
			path: path === "" ? [] : path.split("/").map(decodeURIComponent),
			query: Object.fromEntries(new URLSearchParams(query)),
		};
	} catch {
		return { path: ["unknown"], query: {} };
	}
}

export function splitOnce(text, separator) {
	const at = text.indexOf(separator);
	return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

// A link to `path`, a list of names, which may hold anything.
export function href(path, query = {}) {
	const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
	const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
	return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export const here = () => parse(location.hash);
export function go(path, query) {
	location.hash = href(path, query);
}

// The same view with other conditions: undefined takes one away.
export function change(query) {
	const address = here();
	go(address.path, { ...address.query, ...query });
}
