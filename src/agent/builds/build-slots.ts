// Whose turn it is to build: a few at once, and one of each deployment, since its builds share what it keeps.
type WaitingBuild = { deployment_id: string; begin: () => void }

export class BuildSlots {
  readonly #maxConcurrent: number
  readonly #building = new Set<string>()
  readonly #waiting: WaitingBuild[] = []

  constructor(atOnce: number) {
    this.#maxConcurrent = atOnce
  }

  /** False where it was interrupted while it waited. */
  async acquire(deployment_id: string, signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return false
    if (this.#canBuild(deployment_id)) {
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

  release(deployment_id: string): void {
    this.#building.delete(deployment_id)
    const next = this.#waiting.find(one => this.#canBuild(one.deployment_id))
    if (!next) return
    this.#waiting.splice(this.#waiting.indexOf(next), 1)
    this.#building.add(next.deployment_id)
    next.begin()
  }

  #canBuild(deployment_id: string): boolean {
    return this.#building.size < this.#maxConcurrent && !this.#building.has(deployment_id)
  }
}
