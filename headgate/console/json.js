// What jobs carry, for people to read: bytes as JSON, as text, or in hexadecimal.

import { h } from "./dom.js";
import { visibleLines } from "./parts.js";
import { count } from "./format.js";

const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|[[\]{},]|[^\s[\]{},:"]+/g;
const SHOWN = 200_000;
// A million of pieces would be slower to lay out than they are worth.
const PIECES = 20_000;

export const fromBase64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

// What was written in a form, whose lines end as a form ends them.
export function toBase64(text) {
	let binary = "";
	for (const byte of new TextEncoder().encode(text.replaceAll("\r\n", "\n"))) binary += String.fromCharCode(byte);
	return btoa(binary);
}

export function asText(bytes) {
	try {
		return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
	} catch {
		return null;
	}
}

// The same JSON on many lines, as pieces of text and what they are, or null when it is none. Numbers
// are taken over as they were written: no integer is too big, no fraction is rounded.
export function indent(text) {
	try {
		JSON.parse(text);
	} catch {
		return null;
	}
	const pieces = [];
	let depth = 0;
	let opened = false;
	const add = (text, kind) => pieces.push({ text, kind });
	const newline = () => add(`\n${"  ".repeat(depth)}`);
	for (const [token, string, colon] of text.matchAll(TOKEN)) {
		const closes = token === "}" || token === "]";
		if (closes) depth -= 1;
		if (closes ? !opened : opened) newline();
		opened = token === "{" || token === "[";
		if (opened) depth += 1;
		if (string) add(string, colon ? "key" : "string");
		else add(token, /[\w-]/.test(token[0]) ? "value" : undefined);
		if (colon) add(": ");
		if (token === ",") newline();
	}
	return pieces;
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
function readable(bytes) {
	const text = asText(bytes);
	const pieces = text === null ? null : indent(text);
	if (pieces) return { form: "JSON", text: pieces.map((piece) => piece.text).join(""), pieces };
	if (text === null || /[\u0000-\u0008\u000e-\u001f]/.test(text)) return { form: "bytes", text: hexadecimal(bytes) };
	return { form: "text", text };
}
export function contents(bytes, label) {
	const { form, text, pieces } = readable(bytes);
	const cut = text.length > SHOWN;
	const coloured = pieces && !cut && pieces.length < PIECES;
	return h(
		"figure.contents",
		h("figcaption", `${form} · ${count(bytes.length)} bytes${cut ? " · the beginning of it" : ""}`),
		h(
			"pre",
			{ tabindex: "0", "aria-label": label },
			coloured ? pieces.map(({ text, kind }) => (kind ? h("span", { class: `json-${kind}` }, visibleLines(text)) : text)) : visibleLines(text.slice(0, SHOWN)),
		),
	);
}
