// Resets the state of modules that the files of tests in one worker share. None of it may reach the next file.
const resets: (() => unknown)[] = []

/** Runs the function at the end of every file of tests. */
export const onFileEnd = (reset: () => unknown): void => void resets.push(reset)

export async function resetFileState(): Promise<void> {
  // Later ones build on earlier ones.
  for (const reset of resets.toReversed()) await reset()
}
