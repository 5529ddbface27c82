// What jobs carry, for people to read: bytes as JSON, as text, or in hexadecimal.

import { h } from "./dom.js";
import { visible } from "./parts.js";
import { count } from "./format.js";

const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|\b(true|false|null)\b|([[\]{}])|(,)|\s+/gy;
const SHOWN = 200_000;

export function fromBase64(text) {
	return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

export function toBase64(text) {
	let binary = "";
	for (const byte of new TextEncoder().encode(text)) binary += String.fromCharCode(byte);
	return btoa(binary);
}

export function asText(bytes) {
	try {
		return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
	} catch {
		return null;
	}
}

// Bytes as they are best read, and what that is.
export function readable(bytes) {
	const text = asText(bytes);
	if (text === null) return { form: "bytes", text: hexadecimal(bytes) };
	const pretty = indent(text);
	if (pretty !== null) return { form: "JSON", text: pretty };
	if (/[\u0000-\u0008\u000e-\u001f]/.test(text)) return { form: "bytes", text: hexadecimal(bytes) };
	return { form: "text", text };
}

// The same JSON on many lines, or null when it is none. Numbers are taken over as they were
// written: no integer is too big, no fraction is rounded.
export function indent(text) {
	try {
		JSON.parse(text);
	} catch {
		return null;
	}
	let depth = 0;
	let out = "";
	const newline = () => `\n${"  ".repeat(depth)}`;
	TOKEN.lastIndex = 0;
	let opened = false;
	for (let match = TOKEN.exec(text); match; match = TOKEN.exec(text)) {
		const [token, string, colon, number, word, bracket, comma] = match;
		if (/^\s+$/.test(token)) continue;
		if (bracket === "}" || bracket === "]") {
			depth -= 1;
			out += opened ? bracket : newline() + bracket;
			opened = false;
			continue;
		}
		if (opened) out += newline();
		opened = false;
		if (bracket) {
			depth += 1;
			opened = true;
			out += bracket;
		} else if (comma) {
			out += comma + newline();
		} else {
			out += string ? string + (colon ? ": " : "") : (number ?? word);
		}
	}
	return out;
}

function hexadecimal(bytes) {
	const lines = [];
	for (let at = 0; at < Math.min(bytes.length, SHOWN / 4); at += 16) {
		const row = bytes.subarray(at, at + 16);
		const hex = Array.from(row, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
		const text = Array.from(row, (byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
		lines.push(`${at.toString(16).padStart(6, "0")}  ${hex.padEnd(47)}  ${text}`);
	}
	return lines.join("\n");
}

// A block of what some bytes say.
export function contents(bytes, label) {
	const { form, text } = readable(bytes);
	const cut = text.length > SHOWN;
	return h(
		"figure.contents",
		h("figcaption", `${form} · ${count(bytes.length)} bytes${cut ? " · the beginning of it" : ""}`),
		h("pre", { tabindex: "0", "aria-label": label }, form === "JSON" ? coloured(text.slice(0, SHOWN)) : visibleLines(text.slice(0, SHOWN))),
	);
}

const visibleLines = (text) => text.split("\n").map(visible).join("\n");

function coloured(text) {
	const parts = [];
	let rest = 0;
	for (const match of text.matchAll(/("(?:[^"\\]|\\.)*")(:?)|-?\d[\d.eE+-]*|\b(?:true|false|null)\b/g)) {
		if (match.index > rest) parts.push(text.slice(rest, match.index));
		const kind = match[1] ? (match[2] ? "key" : "string") : "value";
		parts.push(h("span", { class: `json-${kind}` }, visibleLines(match[1] ?? match[0])), match[2] ?? "");
		rest = match.index + match[0].length;
	}
	parts.push(text.slice(rest));
	// A million of pieces would be slower to lay out than they are worth.
	return parts.length > 20_000 ? visibleLines(text) : parts;
}
