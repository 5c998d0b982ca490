// Conditional requests (pure).

/** If-None-Match compares weakly. */
export const matchesEtag = (header: string | undefined, tag: string): boolean =>
  header?.split(',').some(one => one.trim() === '*' || one.trim().replace(/^W\//, '') === tag) ?? false
