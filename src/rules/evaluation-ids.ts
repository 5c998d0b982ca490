// Ids of evaluations and of the runs of their calls (pure).

export const newEvaluationId = (): string => `${crypto.randomUUID().slice(0, 34)}00`

/** Of the run that an attempt of an evaluation is. The evaluation is found by it, whatever the run's client changes. */
export const callRunId = (evaluation: string, attempt: number): string =>
  `${evaluation.slice(0, 34)}${attempt.toString(16).padStart(2, '0')}`
export const evaluationIdOf = (runId: string): string => `${runId.slice(0, 34)}00`
