// Quotes a text as one word of a shell command (pure).
export const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/** Quotes only where needed. In zsh, a word that begins with `=` or `~` expands. */
export const word = (text: string): string => (/^[\w./:@%+-]+$/.test(text) ? text : quote(text))
