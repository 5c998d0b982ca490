// What an engine says when it fails, as a sentence for whoever wanted it: what happened, and what to do. Pure.

const DISK_FULL = /no space left on device|disk quota exceeded/i
const ACCESS_DENIED = /unauthorized|denied|authentication required|no basic auth|forbidden|\b40[13]\b/i
const NOT_FOUND = /manifest unknown|not found|name unknown|no such image|\b404\b/i
const UNREACHABLE =
  /connection refused|no such host|timeout|timed out|deadline exceeded|unreachable|tls|x509|\bEOF\b|reset by peer|server gave HTTP/i
const PORT_TAKEN = /port is already allocated|address already in use/i
const ADDRESS_POOL_FULL = /could not find free subnet|pools have been fully subnetted/i
const isAddressPoolFull = (said: string) =>
  ADDRESS_POOL_FULL.test(said) || (/non-overlapping|available/i.test(said) && /address pool|subnet/i.test(said))

export function explainPullFailure(image: string, said: string): string {
  if (DISK_FULL.test(said)) return explainFullDisk(said)
  if (ACCESS_DENIED.test(said))
    return `The registry does not let this agent have the image ${image}, or has no such image: see that the name is right, and name its credentials in image_pull_secrets. It says: ${shortSentence(said)}`
  if (NOT_FOUND.test(said))
    return `There is no image ${image}: see that its name and tag are right, and that it was pushed. The registry says: ${shortSentence(said)}`
  if (UNREACHABLE.test(said))
    return `The registry of the image ${image} cannot be reached from here: see that it runs and that this machine may ask it. ${capitalize(shortSentence(said))}`
  return `The image ${image} cannot be pulled: ${shortSentence(said)}`
}

/** Continues "it …", like the ways in which a copy ends. */
export function explainStartFailure(said: string): string {
  if (DISK_FULL.test(said))
    return `could not be started, because the disk of the container engine is full: ${shorten(said)}`
  if (PORT_TAKEN.test(said)) return `could not be started, because its port was taken meanwhile: ${shorten(said)}`
  if (isAddressPoolFull(said))
    return `could not be started, because the engine has no address left for its network: remove networks that nobody uses, or give the engine a bigger default-address-pools: ${shorten(said)}`
  return `could not be started: ${shorten(said)}`
}

export function explainBuildFailure(said: string): string {
  return DISK_FULL.test(said) ? explainFullDisk(said) : `The image cannot be built: ${shortSentence(said)}`
}

export function explainPushFailure(image: string, said: string): string {
  if (DISK_FULL.test(said)) return explainFullDisk(said)
  if (ACCESS_DENIED.test(said))
    return `The registry does not let this agent push ${image}: ask whoever runs it to see to its credentials. It says: ${shortSentence(said)}`
  if (UNREACHABLE.test(said))
    return `The registry that ${image} is to be pushed to cannot be reached from the builder. ${capitalize(shortSentence(said))}`
  return `${image} cannot be pushed: ${shortSentence(said)}`
}

export type ExitState = { ExitCode: number; OOMKilled?: boolean; Error?: string }

/** Continues "it …". Not every engine tells of a kill for memory; what else kills without being asked is rare. */
export function explainExit({ ExitCode, OOMKilled, Error: error }: ExitState, memory: number): string {
  const more = `needed more memory than ${memory ? `its memory limit of ${Math.round(memory / 1024 / 1024)} MB` : 'there is on its machine'}`
  if (OOMKilled) return `was killed, because it ${more}`
  if (error) return explainStartFailure(error)
  if (ExitCode === 137)
    return `was killed (SIGKILL), ${memory ? 'most likely because it' : 'by somebody on its machine, or because it'} ${more}`
  return `ended with code ${ExitCode}`
}

const explainFullDisk = (said: string) =>
  `The disk of the container engine is full: free some of it, or give it a bigger one. It says: ${shortSentence(said)}`
const shorten = (said: string) => {
  const line = said.trim().replace(/\s+/g, ' ').replace(/\.$/, '')
  return line.length > 300 ? `${line.slice(0, 300)}…` : line
}
const shortSentence = (said: string) => `${shorten(said)}.`
const capitalize = (said: string) => said.charAt(0).toUpperCase() + said.slice(1)
