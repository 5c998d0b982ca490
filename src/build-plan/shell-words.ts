// A word of a shell command. Pure.

export const quote = (text: string) => (/^[\w@./=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`)
