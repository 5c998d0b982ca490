// Explains why a container did not start or ended, as the rest of a sentence whose subject is the container. Pure.
import { DISK_FULL, shorten } from './image-failures.ts'

const PORT_TAKEN = /port is already allocated|address already in use/i
const ADDRESS_POOL_FULL = /could not find free subnet|pools have been fully subnetted/i
const isAddressPoolFull = (message: string) =>
  ADDRESS_POOL_FULL.test(message) ||
  (/non-overlapping|available/i.test(message) && /address pool|subnet/i.test(message))

export type ExitState = { ExitCode: number; OOMKilled?: boolean; Error?: string }

export function explainStartFailure(message: string): string {
  if (DISK_FULL.test(message))
    return `could not be started, because the disk of the container engine is full: ${shorten(message)}`
  if (PORT_TAKEN.test(message))
    return `could not be started, because another process took its port: ${shorten(message)}`
  if (isAddressPoolFull(message)) {
    const advice = 'remove unused networks, or give the engine a larger default-address-pools'
    return `could not be started, because the engine has no free subnet for its network: ${advice}: ${shorten(message)}`
  }
  return `could not be started: ${shorten(message)}`
}

/** Some engines do not report OOMKilled. Without a memory limit, other causes of SIGKILL are as likely. */
export function explainExit({ ExitCode, OOMKilled, Error: error }: ExitState, memory: number): string {
  const memoryLimit = memory ? `its memory limit of ${Math.round(memory / 1024 / 1024)} MB` : 'its machine has'
  const exceeded = `needed more memory than ${memoryLimit}`
  if (OOMKilled) return `was killed, because it ${exceeded}`
  if (error) return explainStartFailure(error)
  if (ExitCode === 137) {
    const cause = memory ? 'most likely because it' : 'by another user of its machine, or because it'
    return `was killed (SIGKILL), ${cause} ${exceeded}`
  }
  return `ended with code ${ExitCode}`
}
