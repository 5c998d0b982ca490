// Limits the requests of all drains at once, and those of each workspace.

const MAX_SENDING = 16
const MAX_OF_WORKSPACE = 2

export class SendSlots {
  readonly #running = new Map<string, number>()
  readonly #waiting: { workspace: string; resume: () => void }[] = []
  #total = 0

  async run<T>(workspace: string, work: () => Promise<T>): Promise<T> {
    await new Promise<void>(resume => {
      this.#waiting.push({ workspace, resume })
      this.#next()
    })
    try {
      return await work()
    } finally {
      this.#total--
      this.#count(workspace, -1)
      this.#next()
    }
  }

  #count(workspace: string, change: number): void {
    const count = (this.#running.get(workspace) ?? 0) + change
    if (count > 0) this.#running.set(workspace, count)
    else this.#running.delete(workspace)
  }

  #next(): void {
    while (this.#total < MAX_SENDING) {
      const place = this.#waiting.findIndex(one => (this.#running.get(one.workspace) ?? 0) < MAX_OF_WORKSPACE)
      if (place < 0) return
      const { workspace, resume } = this.#waiting.splice(place, 1)[0]!
      this.#total++
      this.#count(workspace, 1)
      resume()
    }
  }
}
