// What a view may ask of the frame around it.

let commands;

export const serve = (given) => {
	commands = given;
};

// Shows what the API says now.
export const refresh = () => commands.refresh();

// Shows what is known already.
export const update = () => commands.update();
