// A text as one word of a command, in any shell (pure).
export const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/** Only in quotes if it needs them. A word that begins with `=` or `~` is another one in zsh. */
export const word = (text: string): string => (/^[\w./:@%+-]+$/.test(text) ? text : quote(text))
