// Mutants that no test can notice, with the reason. They do not count.
export type Equivalent = { file: string; before: string; after: string; reason: string }

export const equivalents: Equivalent[] = []
