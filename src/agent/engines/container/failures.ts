// What an engine says when it fails, as a sentence for whoever wanted it: what happened, and what to do. Pure.

const FULL = /no space left on device|disk quota exceeded/i
const DENIED = /unauthorized|denied|authentication required|no basic auth|forbidden|\b40[13]\b/i
const MISSING = /manifest unknown|not found|name unknown|no such image|\b404\b/i
const AWAY =
  /connection refused|no such host|timeout|timed out|deadline exceeded|unreachable|tls|x509|\bEOF\b|reset by peer|server gave HTTP/i
const PORT = /port is already allocated|address already in use/i
const FULL_POOL = /could not find free subnet|pools have been fully subnetted/i
const isPoolFull = (said: string) =>
  FULL_POOL.test(said) || (/non-overlapping|available/i.test(said) && /address pool|subnet/i.test(said))

export function pullFailure(image: string, said: string): string {
  if (FULL.test(said)) return full(said)
  if (DENIED.test(said))
    return `The registry does not let this agent have the image ${image}, or has no such image: see that the name is right, and name its credentials in image_pull_secrets. It says: ${short(said)}`
  if (MISSING.test(said))
    return `There is no image ${image}: see that its name and tag are right, and that it was pushed. The registry says: ${short(said)}`
  if (AWAY.test(said))
    return `The registry of the image ${image} cannot be reached from here: see that it runs and that this machine may ask it. ${capital(short(said))}`
  return `The image ${image} cannot be pulled: ${short(said)}`
}

/** Continues "it …", like the ways in which a copy ends. */
export function startFailure(said: string): string {
  if (FULL.test(said)) return `could not be started, because the disk of the container engine is full: ${brief(said)}`
  if (PORT.test(said)) return `could not be started, because its port was taken meanwhile: ${brief(said)}`
  if (isPoolFull(said))
    return `could not be started, because the engine has no address left for its network: remove networks that nobody uses, or give the engine a bigger default-address-pools: ${brief(said)}`
  return `could not be started: ${brief(said)}`
}

export function buildFailure(said: string): string {
  return FULL.test(said) ? full(said) : `The image cannot be built: ${short(said)}`
}

export function pushFailure(image: string, said: string): string {
  if (FULL.test(said)) return full(said)
  if (DENIED.test(said))
    return `The registry does not let this agent push ${image}: ask whoever runs it to see to its credentials. It says: ${short(said)}`
  if (AWAY.test(said))
    return `The registry that ${image} is to be pushed to cannot be reached from the builder. ${capital(short(said))}`
  return `${image} cannot be pushed: ${short(said)}`
}

export type Ended = { ExitCode: number; OOMKilled?: boolean; Error?: string }

/** Continues "it …". Not every engine tells of a kill for memory; what else kills without being asked is rare. */
export function ending({ ExitCode, OOMKilled, Error: error }: Ended, memory: number): string {
  const more = `needed more memory than ${memory ? `its memory limit of ${Math.round(memory / 1024 / 1024)} MB` : 'there is on its machine'}`
  if (OOMKilled) return `was killed, because it ${more}`
  if (error) return startFailure(error)
  if (ExitCode === 137)
    return `was killed (SIGKILL), ${memory ? 'most likely because it' : 'by somebody on its machine, or because it'} ${more}`
  return `ended with code ${ExitCode}`
}

const full = (said: string) =>
  `The disk of the container engine is full: free some of it, or give it a bigger one. It says: ${short(said)}`
const brief = (said: string) => {
  const line = said.trim().replace(/\s+/g, ' ').replace(/\.$/, '')
  return line.length > 300 ? `${line.slice(0, 300)}…` : line
}
const short = (said: string) => `${brief(said)}.`
const capital = (said: string) => said.charAt(0).toUpperCase() + said.slice(1)
