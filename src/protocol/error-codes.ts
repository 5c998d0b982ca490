// The shape of a table of error codes.

export type ErrorCodes = Record<string, { status: number; title: string; problem: string; remedy: string }>
