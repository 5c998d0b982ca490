// What the table of error codes says of each.

export type ErrorCodes = Record<string, { status: number; title: string; problem: string; remedy: string }>
