// The document as a value: `h` describes an element, `render` makes the document match it.
// Whatever is not a description becomes text, so that nothing a job carries is ever markup.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "indeterminate", "open", "selected"]);

// An element, as `name.class.class`. Props, which may be left out: attributes by name, `on…`
// handlers, `style` as an object, and `key` among its siblings. A button does nothing by itself, and
// a drawing is not read aloud, unless they say otherwise.
export function h(what, ...children) {
	const [tag, ...classes] = what.split(".");
	const props = isProps(children[0]) ? { ...children.shift() } : {};
	if (classes.length) props.class = classes.join(" ");
	if (tag === "button") props.type ??= "button";
	if (tag === "svg" && !props.role) props["aria-hidden"] = "true";
	return { tag, props, key: props.key, children: flat(children), node: null };
}

const isProps = (value) => value?.constructor === Object && !("node" in value);

const flat = (children) => children
	.flat(Infinity)
	.filter((child) => child !== null && child !== undefined && typeof child !== "boolean")
	.map((child) => (typeof child === "object" ? child : { text: String(child), node: null }));

const shown = new WeakMap();

// Makes `children` the contents of `parent`, keeping every node that stays what it is: with it
// stay focus, selection, scroll position and what somebody is typing.
export function render(parent, ...children) {
	const next = flat(children);
	patchChildren(parent, shown.get(parent) ?? [], next, false);
	shown.set(parent, next);
}

function patchChildren(parent, before, after, inSvg) {
	const keyed = new Map();
	const others = [];
	for (const old of before) {
		if (old.key === undefined) others.push(old);
		else keyed.set(old.key, old);
	}
	let place = 0;
	for (const next of after) {
		const old = next.key === undefined ? others[place++] : keyed.get(next.key);
		if (old && old.node && old.tag === next.tag) {
			patch(old, next, inSvg);
			old.node = null;
		} else {
			next.node = create(next, inSvg);
		}
	}
	for (const old of before) old.node?.remove();
	let cursor = parent.firstChild;
	for (const next of after) {
		if (next.node === cursor) cursor = cursor.nextSibling;
		else parent.insertBefore(next.node, cursor);
	}
}

function create(next, inSvg) {
	if (next.text !== undefined) return document.createTextNode(next.text);
	const svg = inSvg || next.tag === "svg";
	const node = svg ? document.createElementNS(SVG, next.tag) : document.createElement(next.tag);
	patchChildren(node, [], next.children, svg);
	setProps(node, {}, next.props);
	return node;
}

function patch(old, next, inSvg) {
	next.node = old.node;
	if (next.text !== undefined) {
		if (old.text !== next.text) next.node.data = next.text;
		return;
	}
	patchChildren(next.node, old.children, next.children, inSvg || next.tag === "svg");
	setProps(next.node, old.props, next.props);
}

function setProps(node, before, after) {
	for (const name of Object.keys(before)) {
		if (!(name in after)) setProp(node, name, before[name], undefined);
	}
	for (const [name, value] of Object.entries(after)) {
		if (before[name] !== value) setProp(node, name, before[name], value);
	}
}

function setProp(node, name, before, value) {
	if (name === "key") return;
	if (name.startsWith("on")) {
		node[name] = value ?? null;
	} else if (name === "style") {
		for (const each of Object.keys(before ?? {})) {
			if (!(each in (value ?? {}))) node.style.removeProperty(each);
		}
		for (const [each, text] of Object.entries(value ?? {})) node.style.setProperty(each, text);
	} else if (PROPERTIES.has(name)) {
		node[name] = value ?? (name === "value" ? "" : false);
	} else if (value === undefined || value === null || value === false) {
		node.removeAttribute(name);
	} else {
		node.setAttribute(name, value === true ? "" : String(value));
	}
}
