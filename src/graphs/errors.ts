// Errors with a sentence for the caller or the operator.
/** An answer other than success, with a sentence for the caller. */
export class HttpError extends Error {
  readonly status: number
  /** Seconds until another try may succeed. */
  readonly retryAfter: number | undefined
  constructor(status: number, detail: string, { retryAfter }: { retryAfter?: number } = {}) {
    super(detail)
    this.status = status
    this.retryAfter = retryAfter
  }
}

export const notFound = (kind: string, id: string) => new HttpError(404, `${kind} ${id} was not found.`)

/** A fault of the configuration, the database or a runtime, that the operator must mend before a start. */
export class StartError extends Error {}
