// Events of runs on their way to the server, which writes them.

export class EventLog {
  #send
  #request
  #running = new Set()

  constructor(send, request) {
    this.#send = send
    this.#request = request
  }

  begin(run) {
    this.#running.add(run)
  }

  isRunning = run => this.#running.has(run)

  end(run) {
    this.#running.delete(run)
  }

  emit(run, event, data) {
    this.#send({ type: 'event', run, event, data })
  }

  /**
   * Waits until the events of a run are written. After a crash, a graph goes on from its last checkpoint, so that events
   * from before it would never come again. The server refuses it for a run that another copy may have by now.
   */
  flush(run) {
    return this.#request({ op: 'flush', run })
  }
}
