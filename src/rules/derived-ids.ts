// Ids that follow from what they are of, so that a repeat finds its own effect (pure).
import { sha256 } from '../kernel/digest.ts'

/** A UUID of version 8, whose bits are for applications to choose. */
export function hashToId(text: string): string {
  const hex = sha256().update(text).digest('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}

export const newEvaluationId = (): string => `${crypto.randomUUID().slice(0, 34)}00`

/** Of the run that an attempt of an evaluation is. The evaluation is found by it, whatever the run's client changes. */
export const callRunId = (evaluation: string, attempt: number): string =>
  `${evaluation.slice(0, 34)}${attempt.toString(16).padStart(2, '0')}`
export const evaluationIdOf = (runId: string): string => `${runId.slice(0, 34)}00`
