// The words that the API speaks: its own, those of the contract, and those of vendors.

/** Everything behind the edge of the app speaks the first. */
export const contractWords = ['contract', 'langgraph'] as const
export type ContractWords = (typeof contractWords)[number]
