// Limits concurrent builds: a few on this machine, and one per deployment, because its builds share a cache.
type WaitingBuild = { deployment_id: string; start: () => void }

export class BuildSlots {
  readonly #maxConcurrent: number
  readonly #building = new Set<string>()
  readonly #waiting: WaitingBuild[] = []

  constructor(maxConcurrent: number) {
    this.#maxConcurrent = maxConcurrent
  }

  /** False if the signal was aborted before a slot was free. */
  async acquire(deployment_id: string, signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return false
    if (this.#canBuild(deployment_id)) {
      this.#building.add(deployment_id)
      return true
    }
    return new Promise(resolve => {
      const build: WaitingBuild = {
        deployment_id,
        start: () => {
          signal.removeEventListener('abort', cancel)
          resolve(true)
        },
      }
      const cancel = () => {
        this.#waiting.splice(this.#waiting.indexOf(build), 1)
        resolve(false)
      }
      this.#waiting.push(build)
      signal.addEventListener('abort', cancel, { once: true })
    })
  }

  release(deployment_id: string): void {
    this.#building.delete(deployment_id)
    const next = this.#waiting.find(build => this.#canBuild(build.deployment_id))
    if (!next) return
    this.#waiting.splice(this.#waiting.indexOf(next), 1)
    this.#building.add(next.deployment_id)
    next.start()
  }

  #canBuild(deployment_id: string): boolean {
    return this.#building.size < this.#maxConcurrent && !this.#building.has(deployment_id)
  }
}
