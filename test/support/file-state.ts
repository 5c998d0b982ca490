// What the files of tests in one worker share with its modules. None of it may reach the next file.
const resets: (() => unknown)[] = []

/** Runs the function at the end of every file of tests. */
export const onFileEnd = (reset: () => unknown): void => void resets.push(reset)

export async function resetFileState(): Promise<void> {
  // What builds on another comes before it.
  for (const reset of resets.toReversed()) await reset()
}
