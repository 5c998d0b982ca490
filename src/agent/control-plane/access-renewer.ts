// Asks the control plane whether people whose pages stay open may still see protected deployments.
import { type AccessRenewal, MAX_ACCESS_RENEWALS } from '../../protocol/access-renewals.schema.ts'
import type { ControlPlaneClient } from './client.ts'

type Options = {
  control: Pick<ControlPlaneClient, 'renewAccess'>
  /** Undefined while this agent must not act. */
  currentLease: () => { agent_id: string; fence: number } | undefined
  signal: AbortSignal
}
type Waiting = { renewal: AccessRenewal; resolve: (isRenewed: boolean | null) => void }

/** One deployment must not take the places of the others. */
const [MAX_WAITING, MAX_OF_DEPLOYMENT] = [1000, 100]

export class AccessRenewer {
  readonly #options: Options
  #waiting: Waiting[] = []
  #isRunning = false

  constructor(options: Options) {
    this.#options = options
  }

  /** Null where there is no answer: the router asks again, as long as the page is used. */
  renew(renewal: AccessRenewal): Promise<boolean | null> {
    const { deployment_id } = renewal
    const count = this.#waiting.filter(other => other.renewal.deployment_id === deployment_id).length
    if (this.#waiting.length >= MAX_WAITING || count >= MAX_OF_DEPLOYMENT) return Promise.resolve(null)
    const { promise, resolve } = Promise.withResolvers<boolean | null>()
    this.#waiting.push({ renewal, resolve })
    if (!this.#isRunning) void this.#run()
    return promise
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, MAX_ACCESS_RENEWALS)
      const answers = await this.#request(batch.map(({ renewal }) => renewal)).catch(() => [])
      for (const [i, { resolve }] of batch.entries()) resolve(answers[i] ?? null)
    }
    this.#isRunning = false
  }

  async #request(renewals: AccessRenewal[]): Promise<(boolean | null)[]> {
    const { control, currentLease, signal } = this.#options
    const lease = currentLease()
    if (!lease) return []
    return (await control.renewAccess({ ...lease, renewals }, signal)).renewed
  }
}
