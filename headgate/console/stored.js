// What a browser keeps between pages, where it keeps anything.

export function recall(area, name) {
	try {
		return window[area].getItem(name);
	} catch {
		return null;
	}
}

// Without storage it holds as long as the page. null forgets.
export function keep(area, name, value) {
	try {
		if (value === null) window[area].removeItem(name);
		else window[area].setItem(name, value);
	} catch {
		// There is no such place in this browser.
	}
}
