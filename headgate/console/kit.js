// All that views are made of, in one place.

export * from "./address.js";
export * from "./api.js";
export * from "./asking.js";
export * from "./charts.js";
export * from "./dialog.js";
export * from "./dom.js";
export * from "./format.js";
export * from "./frame.js";
export * from "./json.js";
export * from "./notices.js";
export * from "./parts.js";
export * from "./session.js";
export * from "./states.js";
