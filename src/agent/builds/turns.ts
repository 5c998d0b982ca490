// Whose turn it is to build: a few at once, and one of each deployment, since its builds share what it keeps.
type Waiting = { deployment_id: string; begin: () => void }

export class Turns {
  readonly #atOnce: number
  readonly #building = new Set<string>()
  readonly #waiting: Waiting[] = []

  constructor(atOnce: number) {
    this.#atOnce = atOnce
  }

  /** False where it was interrupted while it waited. */
  async take(deployment_id: string, signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return false
    if (this.#may(deployment_id)) {
      this.#building.add(deployment_id)
      return true
    }
    return new Promise(resolve => {
      const begin = () => {
        signal.removeEventListener('abort', leave)
        resolve(true)
      }
      const one = { deployment_id, begin }
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(one), 1)
        resolve(false)
      }
      this.#waiting.push(one)
      signal.addEventListener('abort', leave, { once: true })
    })
  }

  giveBack(deployment_id: string): void {
    this.#building.delete(deployment_id)
    const next = this.#waiting.find(one => this.#may(one.deployment_id))
    if (!next) return
    this.#waiting.splice(this.#waiting.indexOf(next), 1)
    this.#building.add(next.deployment_id)
    next.begin()
  }

  #may(deployment_id: string): boolean {
    return this.#building.size < this.#atOnce && !this.#building.has(deployment_id)
  }
}
