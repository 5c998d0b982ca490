// Ids of evaluations and of the runs of their calls (pure).

export const newEvaluationId = (): string => `${crypto.randomUUID().slice(0, 34)}00`

/** The id of the run that traces an attempt. It identifies the evaluation, because metadata of a run can be changed. */
export const callRunId = (evaluation: string, attempt: number): string =>
  `${evaluation.slice(0, 34)}${attempt.toString(16).padStart(2, '0')}`
export const evaluationIdOf = (runId: string): string => `${runId.slice(0, 34)}00`
