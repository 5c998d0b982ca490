// Comparison of ETags in conditional requests (pure).

export const matchesEtag = (header: string | undefined, tag: string): boolean =>
  header?.split(',').some(listed => listed.trim() === '*' || listed.trim().replace(/^W\//, '') === tag) ?? false
