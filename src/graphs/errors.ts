// Errors with a sentence for the caller or the operator.
/** An answer other than success, with a sentence for the caller. */
export class HttpError extends Error {
  readonly status: number
  constructor(status: number, detail: string) {
    super(detail)
    this.status = status
  }
}

export const notFound = (kind: string, id: string) => new HttpError(404, `${kind} ${id} was not found.`)

/** A fault of the configuration, the database or a runtime, that the operator must mend before a start. */
export class StartError extends Error {}
