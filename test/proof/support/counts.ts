// The last line of every part of the proof, from which its runner makes the table.
export type Counts = { passed: number; failed: number; skipped: number }

export const formatCounts = ({ passed, failed, skipped }: Counts): string =>
  `${passed} passed, ${failed} failed, ${skipped} skipped`

/** The last line of this form counts. */
export function readCounts(output: string): Counts | undefined {
  const [, passed, failed, skipped] = [...output.matchAll(/^(\d+) passed, (\d+) failed, (\d+) skipped$/gm)].at(-1) ?? []
  return passed === undefined ? undefined : { passed: Number(passed), failed: Number(failed), skipped: Number(skipped) }
}

export const readReasons = (output: string): string[] =>
  [...output.matchAll(/^skipped +(\S.*)$/gm)].map(([, reason]) => reason!)
