// Reads lists again after a change that no event announces.
import { queryClient } from './queries.ts'

/** Resources of the organization have no events in the workspace. */
export const readAgain = (path: string): Promise<void> =>
  queryClient.invalidateQueries({ predicate: ({ queryKey }) => String(queryKey[1]).includes(path) })
