// Events of runs on their way to the server, which writes them.

export class EventLog {
  #send
  #request
  /** Runs with events since their last flush. */
  #unwritten = new Set()
  /** The last flush of a run: two checkpoints at once wait for the same. */
  #flushing = new Map()

  constructor(send, request) {
    this.#send = send
    this.#request = request
  }

  emit(run, event, data) {
    this.#unwritten.add(run)
    this.#send({ type: 'event', run, event, data })
  }

  /**
   * Waits until the events of a run are written. After a crash, a graph goes on from its last checkpoint, so that events
   * from before it would never come again.
   */
  async flush(run) {
    if (this.#unwritten.delete(run)) this.#flushing.set(run, this.#request({ op: 'flush', run }))
    await this.#flushing.get(run)
  }

  forget(run) {
    this.#unwritten.delete(run)
    this.#flushing.delete(run)
  }
}
